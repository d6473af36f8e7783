// Implements the comparison of two results within a case's rule.
#include "tests/conformance/deviation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cubit::conformance {
namespace {

struct FloatLayout {
  std::size_t bytes;
  int exponent_bits;
  int mantissa_bits;
};

FloatLayout layout_of(std::string_view format) {
  if (format == "f16") return {2, 5, 10};
  if (format == "bf16") return {2, 8, 7};
  if (format == "f32") return {4, 8, 23};
  return {8, 11, 52};
}

double value_of(const FloatLayout& layout, std::uint64_t bits) {
  const std::uint64_t mantissa = bits & ((1ULL << layout.mantissa_bits) - 1);
  const auto field = static_cast<int>(bits >> layout.mantissa_bits & ((1ULL << layout.exponent_bits) - 1));
  const int bias = (1 << (layout.exponent_bits - 1)) - 1;
  double value = std::ldexp(static_cast<double>(mantissa), 1 - bias - layout.mantissa_bits);
  if (field == 2 * bias + 1) value = mantissa == 0 ? HUGE_VAL : std::nan("");
  if (field != 0 && field != 2 * bias + 1)
    value =
        std::ldexp(static_cast<double>(mantissa | 1ULL << layout.mantissa_bits), field - bias - layout.mantissa_bits);
  return (bits >> (layout.mantissa_bits + layout.exponent_bits) & 1) != 0 ? -value : value;
}

std::uint64_t bits_at(const std::vector<std::byte>& bytes, std::size_t index, std::size_t width) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * width, width);
  return bits;
}

/// The distance of two results, and the allowed distance.
struct Distance {
  double ulps = 0;
  double absolute = 0;
  double relative = 0;
  double of_bound = 0;  ///< above 1: too far
};

/// Infinite if only one result is finite, or if the signs of infinities differ.
Distance distance(const Rule& rule, std::uint64_t gpu, std::uint64_t cpu) {
  if (gpu == cpu) return {};
  const FloatLayout layout = layout_of(rule.format);
  const double expected = value_of(layout, cpu);
  const double difference = std::abs(value_of(layout, gpu) - expected);
  if (!std::isfinite(difference)) return {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
  if (difference == 0) return {.of_bound = 2};  // zeros of different signs
  const int lowest = 2 - (1 << (layout.exponent_bits - 1));
  const double unit =
      std::ldexp(1.0, std::max(expected == 0 ? lowest : std::ilogb(expected), lowest) - layout.mantissa_bits);
  const double bound = std::max({rule.ulps * unit, rule.absolute, rule.relative * std::abs(expected)}) + unit / 2;
  return {difference / unit, difference, difference / std::abs(expected), difference / bound};
}

std::string operands(const Case& given, std::size_t index) {
  const std::size_t rows = static_cast<std::size_t>(given.blocks) * given.threads;
  if (rows == 0 || given.input.size() % rows != 0 || given.rule.kind == Rule::Kind::matrix) return "";
  const std::size_t slots = given.input.size() / rows / 8;
  std::string text;
  for (std::size_t i = 0; i < slots; ++i)
    text += fmt::format(" {:#x}", bits_at(given.input, index % rows * slots + i, 8));
  return " of operands" + text;
}

std::string first_of(const Case& given, const std::vector<std::byte>& gpu, const std::vector<std::byte>& cpu,
                     std::size_t width, const std::vector<double>& of_bound) {
  const auto is_far = [](double part) { return part > 1; };
  const auto count = std::count_if(of_bound.begin(), of_bound.end(), is_far);
  if (count == 0) return "";
  const auto at = static_cast<std::size_t>(std::find_if(of_bound.begin(), of_bound.end(), is_far) - of_bound.begin());
  return fmt::format(
      "{} of {} results, the first number {}{}: the GPU's is {:#x}, the CPU device's {:#x}, {:.3g} of the bound", count,
      of_bound.size(), at, operands(given, at), bits_at(gpu, at, width), bits_at(cpu, at, width), of_bound[at]);
}

/// The largest element size that divides all results, if the rule does not give one.
std::size_t width_of(const Case& given) {
  if (!given.rule.format.empty()) return layout_of(given.rule.format).bytes;
  const std::size_t rows = static_cast<std::size_t>(given.blocks) * given.threads;
  const std::size_t bytes = given.output_bytes / rows;
  return bytes == 2 || bytes == 8 ? bytes : 4;
}

}  // namespace

std::string first_difference(const Case& given, const std::vector<std::byte>& gpu, const std::vector<std::byte>& cpu) {
  const std::size_t width = width_of(given);
  std::vector<double> of_bound;
  for (std::size_t i = 0; i < gpu.size() / width; ++i) {
    const std::uint64_t a = bits_at(gpu, i, width);
    const std::uint64_t b = bits_at(cpu, i, width);
    const bool is_near = given.rule.kind == Rule::Kind::near;
    of_bound.push_back(is_near ? distance(given.rule, a, b).of_bound : a == b ? 0 : 2);
  }
  return first_of(given, gpu, cpu, width, of_bound);
}

std::string largest_deviation(const Case& given, const std::vector<std::byte>& gpu, const std::vector<std::byte>& cpu) {
  const std::size_t width = width_of(given);
  if (given.rule.kind != Rule::Kind::near) return "";
  Distance largest;
  for (std::size_t i = 0; i < gpu.size() / width; ++i) {
    const Distance one = distance(given.rule, bits_at(gpu, i, width), bits_at(cpu, i, width));
    if (!std::isfinite(one.ulps)) continue;
    largest.ulps = std::max(largest.ulps, one.ulps);
    largest.absolute = std::max(largest.absolute, one.absolute);
    largest.relative = std::max(largest.relative, one.relative);
    largest.of_bound = std::max(largest.of_bound, one.of_bound);
  }
  return fmt::format("{:.3g} ulp, 2^{:.1f} absolute, 2^{:.1f} relative, {:.3f} of the bound", largest.ulps,
                     std::log2(largest.absolute), std::log2(largest.relative), largest.of_bound);
}

}  // namespace cubit::conformance
