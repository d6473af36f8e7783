// Cases of mma.sync in double precision. The model computes the product with the formulas of the PTX ISA, "Matrix
// Fragments for mma.m8n8k4 with .f64 floating point type" and the following sections. Every step is a fused operation,
// in the order of k.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

struct Product {
  int m;
  int k;

  int registers_of_a() const { return m / 8 * (k / 4); }
  int registers_of_b() const { return k / 4; }
  int registers_of_c() const { return m / 4; }
  int registers() const { return registers_of_a() + registers_of_b() + registers_of_c(); }
};

constexpr unsigned kBlocks = 24;

/// The kind of a launch's inputs.
enum class Numbers {
  whole,    ///< small integers, whose sums are exact in any order
  ordinary  ///< every addition rounds
};

double element_of_a(const Product& product, const double* words, int row, int column) {
  const int lane = row % 8 * 4 + column % 4;
  return words[lane * product.registers() + column / 4 * (product.m / 8) + row / 8];
}

double element_of_b(const Product& product, const double* words, int row, int column) {
  const int lane = column * 4 + row % 4;
  return words[lane * product.registers() + product.registers_of_a() + row / 4];
}

double result(const Product& product, const double* words, int lane, int index) {
  const int row = lane / 4 + index / 2 * 8;
  const int column = lane % 4 * 2 + index % 2;
  double sum = words[lane * product.registers() + product.registers_of_a() + product.registers_of_b() + index];
  for (int i = 0; i < product.k; ++i)
    sum = std::fma(element_of_a(product, words, row, i), element_of_b(product, words, i, column), sum);
  return sum;
}

std::vector<std::byte> bytes_of(const std::vector<double>& values) {
  std::vector<std::byte> bytes(8 * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::byte> multiplied(const Product& product, const std::vector<double>& words) {
  std::vector<double> results;
  for (unsigned block = 0; block < kBlocks; ++block) {
    const double* const own = words.data() + block * 32U * static_cast<unsigned>(product.registers());
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < product.registers_of_c(); ++i) results.push_back(result(product, own, lane, i));
    }
  }
  return bytes_of(results);
}

std::vector<double> drawn(const Product& product, Numbers numbers) {
  std::uint64_t state = static_cast<std::uint64_t>(product.m * product.k);
  std::vector<double> words;
  for (unsigned i = 0; i < kBlocks * 32 * static_cast<unsigned>(product.registers()); ++i) {
    const std::uint64_t bits = random_bits(state);
    const double whole = static_cast<double>(bits >> 48) - 32768;
    const double fraction = std::ldexp(static_cast<double>(bits >> 11), -53) - 0.5;
    words.push_back(numbers == Numbers::whole ? whole : std::ldexp(fraction, static_cast<int>(bits % 31) - 15));
  }
  return words;
}

std::string double_list(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%v{}", i == 0 ? "" : ", ", first + i);
  return text + "}";
}

std::string body_of(const std::string& opcode, const Product& product) {
  const int a = product.registers_of_a();
  const int b = product.registers_of_b();
  const int c = product.registers_of_c();
  const int total = product.registers();
  std::string body = fmt::format(
      "  .reg .f64 %v<32>;\n  mad.lo.u32 %r60, %b, %n, %t;\n  mad.wide.u32 %in, %r60, {}, %in;\n"
      "  mad.wide.u32 %out, %r60, {}, %out;\n",
      8 * total, 8 * c);
  for (int i = 0; i < total; ++i) body += fmt::format("  ld.global.f64 %v{}, [%in+{}];\n", i, 8 * i);
  body += fmt::format("  {} {}, {}, {}, {};\n", opcode, double_list(total, c), double_list(0, a), double_list(a, b),
                      double_list(a + b, c));
  for (int i = 0; i < c; ++i) body += fmt::format("  st.global.f64 [%out+{}], %v{};\n", 8 * i, total + i);
  return body;
}

void add_product(Cases& cases, const Product& product, Numbers numbers) {
  Case made;
  const std::string opcode = fmt::format("mma.sync.aligned.m{}n8k{}.row.col.f64.f64.f64.f64", product.m, product.k);
  made.name = opcode + (numbers == Numbers::whole ? " of whole numbers" : "");
  made.kernel = kernel_text("", body_of(opcode, product));
  made.blocks = kBlocks;
  const std::vector<double> words = drawn(product, numbers);
  made.input = bytes_of(words);
  made.output_bytes = std::size_t{8} * 32 * kBlocks * static_cast<std::size_t>(product.registers_of_c());
  made.model = [product, words] { return multiplied(product, words); };
  cases.push_back(std::move(made));
}

}  // namespace

void add_double(Cases& cases) {
  for (const Product product : {Product{8, 4}, {16, 4}, {16, 8}, {16, 16}}) {
    for (const Numbers numbers : {Numbers::whole, Numbers::ordinary}) add_product(cases, product, numbers);
  }
}

}  // namespace cubit::conformance
