// Makes the kernel text, the input and the memory layouts of wgmma products.
#include "tests/support/wgmma_product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>

#include "codegen/fragments.hpp"

namespace cubit::tests {
namespace {

using std::size_t;
using Words = std::vector<std::uint32_t>;

constexpr int kAlignment = 4096;  // alignment of the largest swizzle pattern, and bytes that 256 threads copy at once
constexpr int kWordsOfA = 4 * WgmmaProduct::kSteps;  // registers of one thread

int rounded_up(int bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Offset of B in shared memory. A comes first if it is in shared memory.
int first_b(const WgmmaProduct& p) { return p.a_in_registers ? 0 : rounded_up(p.a().bytes()); }
int image_bytes(const WgmmaProduct& p) { return first_b(p) + rounded_up(p.b().bytes()); }

/// Bits of a number that the type can represent.
std::uint16_t bits_of(std::string_view type, double value) {
  if (type == "bf16") return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
  if (type == "s8") return static_cast<std::uint8_t>(static_cast<int>(value));
  if (value == 0) return 0;
  const bool is_byte = type == "e4m3";
  const int mantissa_bits = is_byte ? 3 : 10;
  const int bias = is_byte ? 7 : 15;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const auto mantissa = static_cast<int>(std::ldexp(std::abs(value), mantissa_bits - exponent));
  const int magnitude = (exponent + bias - 1) * (1 << mantissa_bits) + mantissa;
  return static_cast<std::uint16_t>(magnitude | (value < 0 ? (is_byte ? 0x80 : 0x8000) : 0));
}

std::uint32_t bits_of_sum(const WgmmaProduct& p, double value) {
  return p.is_integer() ? static_cast<std::uint32_t>(static_cast<std::int32_t>(value))
                        : std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

const char* result_type(const WgmmaProduct& p) { return p.is_integer() ? "s32" : "f32"; }

std::string registers(const char* name, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%{}{}", i == 0 ? "" : ",", name, first + i);
  return text + "}";
}

/// Copies the image into shared memory and loads the registers of A and C.
std::string beginning(const WgmmaProduct& p) {
  std::string text = fmt::format(R"(
    .reg .{6} %acc<{0}>; .reg .b32 %a<16>; .reg .b64 %desc<2>; .reg .pred %first, %more;
    setp.ne.u32 %first, 1, 1; setp.eq.u32 %more, 1, 1;
    mov.u32 %r9, image; shl.b32 %r0, %t, 4; mov.u64 %d0, %in;
    $copy: cvt.u64.u32 %d1, %r0; add.u64 %d1, %d0, %d1; ld.global.v4.u32 {{%r1,%r2,%r3,%r4}}, [%d1];
    add.u32 %r5, %r9, %r0; st.shared.v4.u32 [%r5], {{%r1,%r2,%r3,%r4}};
    add.u32 %r0, %r0, {2}; setp.lt.u32 %p0, %r0, {1}; @%p0 bra $copy;
    fence.proxy.async.shared::cta; bar.sync 0;
    and.b32 %r10, %t, 127; add.u64 %in, %in, {1}; mad.wide.u32 %d2, %r10, {3}, %in; add.u64 %in, %in, {4};
    mad.wide.u32 %d3, %r10, {5}, %in; mad.wide.u32 %out, %t, {5}, %out;
)",
                                 p.n / 2, image_bytes(p), 16 * p.threads, 4 * kWordsOfA,
                                 4 * kWordsOfA * WgmmaProduct::kWarpgroup, 2 * p.n, result_type(p));
  for (int i = 0; i < kWordsOfA; ++i) text += fmt::format("ld.global.b32 %a{}, [%d2+{}];\n", i, 4 * i);
  for (int i = 0; i < p.n / 2; ++i) text += fmt::format("ld.global.{} %acc{}, [%d3+{}];\n", result_type(p), i, 4 * i);
  return text + "shr.u32 %r11, %r9, 4; cvt.u64.u32 %d4, %r11; wgmma.fence.sync.aligned;\n";
}

/// The operands behind scale-d. Integers have no signs, and bytes have no transposition.
std::string immediates(const WgmmaProduct& p) {
  if (p.is_integer()) return "";
  const std::string signs = fmt::format(", {}, {}", p.scale_a, p.scale_b);
  if (p.element_bytes() == 1) return signs;
  return signs + (p.a_in_registers ? "" : p.a_is_m_major ? ", 1" : ", 0") + (p.b_is_n_major ? ", 1" : ", 0");
}

std::string multiplication(const WgmmaProduct& p, int step) {
  const int k = step * p.step();
  const std::string a = p.a_in_registers ? registers("a", 4 * step, 4) : "%desc0";
  return fmt::format(
      "add.u64 %desc0, %d4, {}; add.u64 %desc1, %d4, {};\n"
      "wgmma.mma_async.sync.aligned.m64n{}k{}{}.{}.{}.{} {}, {}, %desc1, {}{};\n",
      p.a().descriptor() + static_cast<std::uint64_t>(p.a().start(k) / 16),
      p.b().descriptor() + static_cast<std::uint64_t>((first_b(p) + p.b().start(k)) / 16), p.n, p.step(),
      p.saturates ? ".satfinite" : "", result_type(p), p.type, p.type, registers("acc", 0, p.n / 2), a,
      step == 0 && !p.adds ? "%first" : "%more", immediates(p));
}

}  // namespace

int WgmmaOperand::tile_bytes() const { return swizzle * (is_mn_major ? k() : rows); }

int WgmmaOperand::bytes() const {
  if (swizzle == 0) return rows * k() * element_bytes;
  return tile_bytes() * (is_mn_major ? (rows + width() - 1) / width() : k() / width());
}

// Core matrices have 128 bytes: 8 chunks, one per row (K-major) or per k (MN-major). The two strides are different.
int WgmmaOperand::core_stride_mn() const { return is_mn_major ? 128 : 128 * (k() / chunk_elements()); }
int WgmmaOperand::core_stride_k() const { return is_mn_major ? 128 * (rows / chunk_elements()) : 128; }

int WgmmaOperand::place(int i, int k) const {
  const int along = is_mn_major ? i : k;   // contiguous
  const int across = is_mn_major ? k : i;  // rows of a tile
  const int in_chunk = along % chunk_elements() * element_bytes;
  if (swizzle == 0) {
    return along / chunk_elements() * (is_mn_major ? core_stride_mn() : core_stride_k()) +
           across / 8 * (is_mn_major ? core_stride_k() : core_stride_mn()) + across % 8 * 16 + in_chunk;
  }
  const int chunk = along % width() / chunk_elements();
  const int pattern = across * swizzle / 128 % (swizzle / 16);
  return along / width() * tile_bytes() + across * swizzle + (chunk ^ pattern) * 16 + in_chunk;
}

int WgmmaOperand::start(int k) const {
  if (swizzle == 0) return k / (is_mn_major ? 8 : chunk_elements()) * core_stride_k();
  if (is_mn_major) return k * swizzle;
  return k / width() * tile_bytes() + k % width() * element_bytes;
}

std::uint64_t WgmmaOperand::descriptor() const {
  const auto mode = static_cast<std::uint64_t>(swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0);
  const int leading = swizzle == 0 ? core_stride_k() : is_mn_major ? tile_bytes() : 16;
  const int stride = swizzle == 0 ? core_stride_mn() : 8 * swizzle;
  return mode << 62 | static_cast<std::uint64_t>(stride / 16) << 32 | static_cast<std::uint64_t>(leading / 16) << 16;
}

std::string WgmmaProduct::text() const {
  return fmt::format("m64n{}k{} {}, swizzle {}, A {}{}, B along {}, scales {} {}, {}, exponents {}{}", n, k(), type,
                     swizzle, a_in_registers ? "in registers" : "along ",
                     a_in_registers ? ""
                     : a_is_m_major ? "m"
                                    : "k",
                     b_is_n_major ? "n" : "k", scale_a, scale_b, adds ? "added" : "alone", exponents,
                     saturates ? ", saturated" : "");
}

std::string WgmmaProduct::declarations() const {
  return fmt::format(".shared .align 1024 .b8 image[{}];", image_bytes(*this));
}

std::string WgmmaProduct::body() const {
  std::string text = beginning(*this);
  for (int step = 0; step < kSteps; ++step) text += multiplication(*this, step);
  text += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n";
  for (int i = 0; i < n / 2; ++i)
    text += fmt::format("st.global.{} [%out+{}], %acc{};\n", result_type(*this), 4 * i, i);
  return text;
}

WgmmaNumbers::WgmmaNumbers(const WgmmaProduct& product) {
  std::mt19937 random(static_cast<unsigned>(product.n + product.exponents));
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  const int bits = std::string_view(product.type) == "e4m3" ? 4 : 8;
  const auto number = [&](int exponents, int significant_bits) {
    if (product.is_integer()) return static_cast<double>(between(-128, 127));
    if (exponents == 0) return static_cast<double>(between(-15, 15));
    const int lowest = 1 << (significant_bits - 1);
    const int significand = between(lowest, 2 * lowest - 1) * (between(0, 1) == 0 ? 1 : -1);
    const double made = std::ldexp(significand, between(-exponents, exponents) - significant_bits + 1);
    // A subnormal number of e4m3 is a multiple of 2^-9.
    return significant_bits == 4 ? std::ldexp(std::trunc(std::ldexp(made, 9)), -9) : made;
  };
  const auto addend = [&] {
    if (product.is_integer()) {
      const int distance = between(0, 1 << 16);  // so that many sums leave the range
      return static_cast<double>(between(0, 1) == 0 ? INT32_MIN + distance : INT32_MAX - distance);
    }
    return number(2 * product.exponents, 24);
  };
  for (int i = 0; i < WgmmaProduct::kM * product.k(); ++i) a.push_back(number(product.exponents, bits));
  for (int i = 0; i < product.n * product.k(); ++i) b.push_back(number(product.exponents, bits));
  for (int i = 0; i < WgmmaProduct::kM * product.n; ++i) c.push_back(product.adds ? addend() : 0);
}

Words WgmmaNumbers::input(const WgmmaProduct& product) const {
  const WgmmaOperand operand_a = product.a();
  const WgmmaOperand operand_b = product.b();
  const auto element_bytes = static_cast<size_t>(product.element_bytes());
  const auto bits = [&](const std::vector<double>& matrix, int row, int k) {
    return bits_of(product.type, matrix[static_cast<size_t>(row * product.k() + k)]);
  };
  std::vector<std::byte> image(static_cast<size_t>(image_bytes(product)));
  const auto store = [&](int place, std::uint16_t element) {
    std::memcpy(image.data() + place, &element, element_bytes);
  };
  for (int k = 0; k < product.k(); ++k) {
    for (int i = 0; i < WgmmaProduct::kM && !product.a_in_registers; ++i) store(operand_a.place(i, k), bits(a, i, k));
    for (int i = 0; i < product.n; ++i) store(first_b(product) + operand_b.place(i, k), bits(b, i, k));
  }
  Words words(image.size() / 4);
  std::memcpy(words.data(), image.data(), image.size());
  const codegen::FragmentMap& fragment =
      codegen::find_fragment(element_bytes == 1 ? "wgmma.m64k32 A, 8-bit" : "wgmma.m64k16 A, 16-bit");
  for (int thread = 0; thread < WgmmaProduct::kWarpgroup; ++thread) {
    const int per_word = 32 / fragment.element_bits;
    for (int value = 0; value < kWordsOfA * per_word; ++value) {
      const codegen::Element at = fragment.at(thread % 32, value % fragment.value_count);
      const std::uint32_t element =
          bits(a, thread / 32 * fragment.rows + at.row, value / fragment.value_count * fragment.columns + at.column);
      if (value % per_word == 0) words.push_back(0);
      words.back() |= element << (value % per_word * fragment.element_bits);
    }
  }
  for (int thread = 0; thread < WgmmaProduct::kWarpgroup; ++thread) {
    for (int i = 0; i < product.n / 2; ++i) {
      const codegen::Element at = codegen::warpgroup_accumulator(thread, i);
      words.push_back(bits_of_sum(product, c[static_cast<size_t>(at.row * product.n + at.column)]));
    }
  }
  return words;
}

}  // namespace cubit::tests
