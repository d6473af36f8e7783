// Cases of wgmma. Products of integers, whose sums are exact in any order, test the matrix layouts. Products whose sums
// are not exact test the order of adding. Their model is the CPU device's assumption, written a second time in double
// precision, because no manual states how wgmma adds. A recording that differs shows how a GPU adds.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "codegen/fragments.hpp"
#include "tests/conformance/elementwise.hpp"
#include "tests/support/wgmma_product.hpp"

namespace cubit::conformance {
namespace {

using tests::WgmmaNumbers;
using tests::WgmmaProduct;

/// Fraction bits of the terms of a sum, and of the sum.
struct Precision {
  int of_terms;
  int of_sum;
};
Precision precision_of(const WgmmaProduct& product) {
  return product.element_bytes() == 1 ? Precision{13, 13} : Precision{25, 23};
}

float cut(double value, int fraction_bits) {
  const double unit = std::ldexp(1.0, std::ilogb(value) - fraction_bits);
  return static_cast<float>(std::trunc(value / unit) * unit);
}

/// The exponent of a factor. A subnormal number of e4m3 has that of the lowest normal number.
int exponent_of(const WgmmaProduct& product, double factor) {
  constexpr int kLowest = -6;
  return product.element_bytes() == 1 ? std::max(std::ilogb(factor), kLowest) : std::ilogb(factor);
}

/// The products of one step and the addend, each truncated after the fraction bits from the largest exponent. A
/// product's exponent is the sum of its factors' exponents.
double step_sum(const WgmmaProduct& product, const double* a, const double* b, double addend) {
  const Precision precision = precision_of(product);
  const double sign = product.scale_a * product.scale_b;
  int largest = addend == 0 ? -1000 : std::ilogb(addend);
  for (int k = 0; k < product.step(); ++k) {
    if (a[k] != 0 && b[k] != 0) largest = std::max(largest, exponent_of(product, a[k]) + exponent_of(product, b[k]));
  }
  const auto aligned = [&](double term) { return std::trunc(std::ldexp(term, precision.of_terms - largest)); };
  double sum = aligned(addend);
  for (int k = 0; k < product.step(); ++k) sum += aligned(sign * a[k] * b[k]);
  return sum == 0 ? 0 : cut(std::ldexp(sum, largest - precision.of_terms), precision.of_sum);
}

/// The sum of one step, exact, then clamped or reduced to 32 bits.
double integer_step_sum(const WgmmaProduct& product, const double* a, const double* b, double addend) {
  double sum = addend;
  for (int k = 0; k < product.step(); ++k) sum += a[k] * b[k];
  if (product.saturates) return std::clamp(sum, double{INT32_MIN}, double{INT32_MAX});
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(sum)));
}

std::vector<std::byte> modelled(const WgmmaProduct& product) {
  const WgmmaNumbers numbers(product);
  std::vector<std::byte> bytes;
  for (unsigned thread = 0; thread < product.threads; ++thread) {
    for (int i = 0; i < product.n / 2; ++i) {
      const codegen::Element at = codegen::warpgroup_accumulator(static_cast<int>(thread), i);
      double sum = numbers.c[static_cast<std::size_t>(at.row * product.n + at.column)];
      for (int k = 0; k < product.k(); k += product.step()) {
        const auto step = product.is_integer() ? integer_step_sum : step_sum;
        sum = step(product, numbers.a.data() + at.row * product.k() + k, numbers.b.data() + at.column * product.k() + k,
                   sum);
      }
      const std::uint32_t word = product.is_integer() ? static_cast<std::uint32_t>(static_cast<std::int32_t>(sum))
                                                      : std::bit_cast<std::uint32_t>(static_cast<float>(sum));
      const auto* const first = reinterpret_cast<const std::byte*>(&word);
      bytes.insert(bytes.end(), first, first + sizeof word);
    }
  }
  return bytes;
}

void add(Cases& cases, const WgmmaProduct& product) {
  const std::vector<std::uint32_t> words = WgmmaNumbers(product).input(product);
  const auto* const first = reinterpret_cast<const std::byte*>(words.data());
  Case made;
  made.name = "wgmma.mma_async " + product.text();
  made.kernel = kernel_text(product.declarations(), product.body());
  made.threads = product.threads;
  made.input.assign(first, first + 4 * words.size());
  made.output_bytes = 4 * product.results();
  made.model = [product] { return modelled(product); };
  cases.push_back(std::move(made));
}

}  // namespace

void add_wgmma(Cases& cases) {
  for (const char* type : {"f16", "bf16"}) {
    for (const int swizzle : {0, 32, 64, 128}) {
      for (const bool transposed : {false, true}) {
        add(cases, {.n = 128, .type = type, .swizzle = swizzle, .b_is_n_major = transposed, .exponents = 0});
        add(cases, {.type = type,
                    .swizzle = swizzle,
                    .a_in_registers = false,
                    .a_is_m_major = transposed,
                    .scale_a = -1,
                    .exponents = 0});
      }
    }
    for (const int exponents : {1, 3, 6}) add(cases, {.n = 64, .type = type, .adds = true, .exponents = exponents});
    add(cases, {.n = 16, .type = type, .scale_b = -1, .exponents = 4});
  }
  for (const int n : {24, 200, 256}) add(cases, {.n = n, .exponents = 0});
}

void add_wgmma_bytes(Cases& cases) {
  for (const char* type : {"e4m3", "s8"}) {
    for (const int swizzle : {0, 32, 64, 128}) {
      add(cases, {.n = 128, .type = type, .swizzle = swizzle, .exponents = 0});
      add(cases, {.type = type, .swizzle = swizzle, .a_in_registers = false, .exponents = 0});
    }
    for (const int n : {16, 24, 32, 48, 240, 256}) add(cases, {.n = n, .type = type, .exponents = 0});
  }
  for (const int n : {40, 200}) add(cases, {.n = n, .type = "e4m3", .exponents = 0});
  for (const int exponents : {1, 3, 6, 7}) {  // with 7, some numbers are subnormal
    for (const bool adds : {false, true}) add(cases, {.n = 64, .type = "e4m3", .adds = adds, .exponents = exponents});
  }
  for (const int sign : {-1, 1}) {
    add(cases, {.n = 16, .type = "e4m3", .a_in_registers = false, .scale_a = -1, .scale_b = sign, .exponents = 4});
    add(cases, {.n = 16, .type = "e4m3", .scale_a = sign, .scale_b = -1, .exponents = 4});
  }
  for (const bool saturates : {false, true})
    add(cases, {.n = 64, .type = "s8", .adds = true, .exponents = 0, .saturates = saturates});
}

}  // namespace cubit::conformance
