// Cases of mma.sync of 4-bit integers. The model computes the product with the formulas of the PTX ISA, "Matrix
// Fragments for mma.m8n8k32", "mma.m16n8k32", "mma.m16n8k64". Tensor cores of Hopper have no 4-bit unit; the assembler
// uses other instructions.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

struct Product {
  int m;
  int k;
  const char* a;
  const char* b;
  bool saturates;

  int registers_of_a() const { return m / 8 * (k / 32); }
  int registers_of_b() const { return k / 32; }
  int registers_of_c() const { return m / 4; }
  int registers() const { return registers_of_a() + registers_of_b() + registers_of_c(); }
};

constexpr unsigned kBlocks = 40;

std::int64_t value_of(const char* type, std::uint32_t nibble) {
  nibble &= 15;
  return type[0] == 's' && nibble > 7 ? static_cast<std::int64_t>(nibble) - 16 : static_cast<std::int64_t>(nibble);
}

/// Registers of A hold rows g and g + 8, then the same rows in the next 32 columns. Each register holds eight columns.
std::int64_t element_of_a(const Product& product, const std::uint32_t* words, int row, int column) {
  const int lane = row % 8 * 4 + column % 32 / 8;
  const int index = column / 32 * (product.m / 8) + row / 8;
  return value_of(product.a, words[lane * product.registers() + index] >> (column % 8 * 4));
}

std::int64_t element_of_b(const Product& product, const std::uint32_t* words, int row, int column) {
  const int lane = column * 4 + row % 32 / 8;
  const int index = product.registers_of_a() + row / 32;
  return value_of(product.b, words[lane * product.registers() + index] >> (row % 8 * 4));
}

/// Register i of a lane's result: row g (+ 8 from the third register on), two columns per row.
std::uint32_t result(const Product& product, const std::uint32_t* words, int lane, int index) {
  const int row = lane / 4 + index / 2 * 8;
  const int column = lane % 4 * 2 + index % 2;
  const int first = product.registers_of_a() + product.registers_of_b();
  std::int64_t sum = static_cast<std::int32_t>(words[lane * product.registers() + first + index]);
  for (int i = 0; i < product.k; ++i)
    sum += element_of_a(product, words, row, i) * element_of_b(product, words, i, column);
  if (product.saturates) sum = std::min<std::int64_t>(std::max<std::int64_t>(sum, INT32_MIN), INT32_MAX);
  return static_cast<std::uint32_t>(sum);
}

std::vector<std::byte> multiplied(const Product& product, const std::vector<std::uint32_t>& words) {
  std::vector<std::uint32_t> results;
  for (unsigned block = 0; block < kBlocks; ++block) {
    const std::uint32_t* const own = words.data() + block * 32U * static_cast<unsigned>(product.registers());
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < product.registers_of_c(); ++i) results.push_back(result(product, own, lane, i));
    }
  }
  std::vector<std::byte> bytes(4 * results.size());
  std::memcpy(bytes.data(), results.data(), bytes.size());
  return bytes;
}

/// Half of the addends are near the limits, so that saturation and wrapping show.
std::vector<std::uint32_t> drawn(const Product& product) {
  std::uint64_t state = static_cast<std::uint64_t>(product.m * product.k);
  std::vector<std::uint32_t> words;
  for (unsigned lane = 0; lane < kBlocks * 32; ++lane) {
    for (int i = 0; i < product.registers() - product.registers_of_c(); ++i)
      words.push_back(static_cast<std::uint32_t>(random_bits(state)));
    for (int i = 0; i < product.registers_of_c(); ++i) {
      const std::uint64_t bits = random_bits(state);
      const auto small = static_cast<std::uint32_t>(bits & 0xfff);
      words.push_back(bits >> 62 == 0 ? 0x7fffffff - small : bits >> 62 == 1 ? 0x80000000 + small : small - 0x800);
    }
  }
  return words;
}

std::string list(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%r{}", i == 0 ? "" : ", ", first + i);
  return text + "}";
}

std::string body_of(const std::string& opcode, const Product& product) {
  const int a = product.registers_of_a();
  const int b = product.registers_of_b();
  const int c = product.registers_of_c();
  std::string body = fmt::format(
      "  mad.lo.u32 %r60, %b, %n, %t;\n  mad.wide.u32 %in, %r60, {}, %in;\n  mad.wide.u32 %out, %r60, {}, %out;\n",
      4 * product.registers(), 4 * c);
  for (int i = 0; i < product.registers(); ++i) body += fmt::format("  ld.global.b32 %r{}, [%in+{}];\n", i, 4 * i);
  body += fmt::format("  {} {}, {}, {}, {};\n", opcode, list(40, c), list(0, a), list(a, b), list(a + b, c));
  for (int i = 0; i < c; ++i) body += fmt::format("  st.global.b32 [%out+{}], %r{};\n", 4 * i, 40 + i);
  return body;
}

void add_int4_product(Cases& cases, const Product& product) {
  Case made;
  made.name = fmt::format("mma.sync.aligned.m{}n8k{}.row.col{}.s32.{}.{}.s32", product.m, product.k,
                          product.saturates ? ".satfinite" : "", product.a, product.b);
  made.kernel = kernel_text("", body_of(made.name, product));
  made.blocks = kBlocks;
  const std::vector<std::uint32_t> words = drawn(product);
  made.input.resize(4 * words.size());
  std::memcpy(made.input.data(), words.data(), made.input.size());
  made.output_bytes = std::size_t{4} * 32 * kBlocks * static_cast<std::size_t>(product.registers_of_c());
  made.model = [product, words] { return multiplied(product, words); };
  cases.push_back(std::move(made));
}

}  // namespace

void add_int4(Cases& cases) {
  for (const auto& [m, k] : {std::pair{8, 32}, {16, 32}, {16, 64}}) {
    for (const char* a : {"s4", "u4"}) {
      for (const char* b : {"s4", "u4"}) {
        for (const bool saturates : {false, true}) add_int4_product(cases, {m, k, a, b, saturates});
      }
    }
  }
}

}  // namespace cubit::conformance
