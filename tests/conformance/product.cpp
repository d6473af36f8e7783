// Computes exact matrix products and the distance of results from them.
#include "tests/conformance/product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codegen/fragments.hpp"
#include "runtime/cpu/arithmetic/tensor_core.hpp"

namespace cubit::conformance {
namespace {

constexpr int kArchitecture = 90;

struct Encoding {
  const char* name;
  int bits;
  int exponent_bits;
  int mantissa_bits;
  int shift;
  bool has_infinity;
};
constexpr Encoding kEncodings[] = {{"f16", 16, 5, 10, 0, true},   {"bf16", 16, 8, 7, 0, true},
                                   {"tf32", 32, 8, 10, 13, true}, {"e4m3", 8, 4, 3, 0, false},
                                   {"e5m2", 8, 5, 2, 0, true},    {"f32", 32, 8, 23, 0, true}};

const Encoding& encoding(std::string_view name) {
  return *std::find_if(std::begin(kEncodings), std::end(kEncodings),
                       [&](const Encoding& row) { return row.name == name; });
}

double value_of(const Encoding& format, std::uint32_t bits) {
  bits >>= format.shift;
  const std::uint32_t mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const auto field = static_cast<int>(bits >> format.mantissa_bits & ((1U << format.exponent_bits) - 1));
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const bool top = field == (1 << format.exponent_bits) - 1;
  double value = std::ldexp(static_cast<double>(mantissa), 1 - bias - format.mantissa_bits);
  if (field != 0)
    value = std::ldexp(static_cast<double>(mantissa | 1U << format.mantissa_bits), field - bias - format.mantissa_bits);
  if (top && format.has_infinity) value = mantissa == 0 ? HUGE_VAL : std::nan("");
  if (top && !format.has_infinity && mantissa == (1U << format.mantissa_bits) - 1) value = std::nan("");
  return (bits >> (format.mantissa_bits + format.exponent_bits) & 1) != 0 ? -value : value;
}

/// An operand of an mma in one warp.
struct Operand {
  const codegen::FragmentMap* map = nullptr;
  const Encoding* format = nullptr;
  std::vector<double> values = {};  ///< row-major

  double at(int row, int column) const { return values[static_cast<std::size_t>(row * map->columns + column)]; }
};

Operand operand_of(const Case& given, char letter, const std::string& type) {
  Operand made;
  made.format = &encoding(type);
  made.map = &codegen::find_fragment(fmt::format("mma.{} {}, {}-bit", given.matrix.shape, letter, made.format->bits));
  made.values.resize(static_cast<std::size_t>(made.map->rows * made.map->columns));
  return made;
}

/// `words`: a lane's registers from `first` on, with `stride` words from lane to lane.
void gather(Operand& dst, const std::byte* words, int first, int stride) {
  const int bits = dst.map->element_bits;
  for (int lane = 0; lane < 32; ++lane) {
    for (int value = 0; value < dst.map->value_count; ++value) {
      std::uint32_t word = 0;
      std::memcpy(&word, words + 4 * (lane * stride + first + value * bits / 32), sizeof word);
      const codegen::Element e = dst.map->at(lane, value);
      dst.values[static_cast<std::size_t>(e.row * dst.map->columns + e.column)] =
          value_of(*dst.format, word >> (value * bits % 32) & (~0U >> (32 - bits)));
    }
  }
}

/// A subnormal counts as the lowest normal number; zero does not count.
double counted(const Encoding& format, double value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  return value == 0 ? 0 : std::max(std::abs(value), std::ldexp(1.0, 1 - bias));
}

/// Relative to the bound: sum_bound() plus a unit of the result. If partial sums are numbers of the format too, each
/// adds a unit.
double error(const runtime::cpu::TensorCore& core, const Operand& a, const Operand& b, const Operand& c,
             codegen::Element e, double result) {
  const int k = a.map->columns;
  long double sum = c.at(e.row, e.column);
  double largest = counted(*c.format, c.at(e.row, e.column));
  double magnitudes = 0;
  for (int i = 0; i < k; ++i) {
    const double product = a.at(e.row, i) * b.at(i, e.column);
    sum += product;
    magnitudes += std::abs(product);
    largest = std::max(largest, counted(*a.format, a.at(e.row, i)) * counted(*b.format, b.at(i, e.column)));
  }
  if (std::isnan(sum)) return std::isnan(result) ? 0 : HUGE_VAL;
  if (static_cast<double>(sum) == result) return 0;
  if (std::isinf(sum) || std::isnan(result)) return HUGE_VAL;
  const int mantissa = c.format->mantissa_bits;
  const int bias = (1 << (c.format->exponent_bits - 1)) - 1;
  double bound = runtime::cpu::sum_bound(core, k + 1, largest);
  if (core.through_f16) bound += std::ldexp(2 * magnitudes, -mantissa);
  const double limit = std::ldexp(2.0 - std::ldexp(0.5, -mantissa), bias);
  if (std::isinf(result)) return std::abs(static_cast<double>(sum)) + bound >= limit ? 0 : HUGE_VAL;
  const int exponent = std::max(sum == 0 ? 1 - bias : static_cast<int>(std::ilogb(sum)), 1 - bias);
  bound += std::ldexp(1.0, exponent - mantissa);
  return static_cast<double>(std::abs(static_cast<long double>(result) - sum)) / bound;
}

}  // namespace

std::vector<double> product_errors(const Case& given, const std::vector<std::byte>& results) {
  const MatrixFacts& facts = given.matrix;
  runtime::cpu::Format factor{};
  if (!find_format(facts.a, factor)) return {};
  const runtime::cpu::TensorCore& core = runtime::cpu::tensor_core(kArchitecture, factor);
  if (core.through_f16 && facts.c == "f16") return {};
  Operand a = operand_of(given, 'A', facts.a);
  Operand b = operand_of(given, 'B', facts.b);
  Operand c = operand_of(given, 'C', facts.c);
  const int stride = facts.registers[0] + facts.registers[1] + facts.registers[2];
  std::vector<double> errors;
  for (unsigned block = 0; block < given.blocks; ++block) {
    const std::byte* const words = given.input.data() + std::size_t{block} * 32 * 4 * static_cast<std::size_t>(stride);
    gather(a, words, 0, stride);
    gather(b, words, facts.registers[0], stride);
    gather(c, words, facts.registers[0] + facts.registers[1], stride);
    const int bits = c.map->element_bits;
    const std::byte* const out =
        results.data() + std::size_t{block} * 32 * 4 * static_cast<std::size_t>(facts.registers[2]);
    for (int i = 0; i < 32 * c.map->value_count; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, out + static_cast<std::size_t>(i * bits / 8), static_cast<std::size_t>(bits / 8));
      errors.push_back(
          error(core, a, b, c, c.map->at(i / c.map->value_count, i % c.map->value_count), value_of(*c.format, word)));
    }
  }
  return errors;
}

}  // namespace cubit::conformance
