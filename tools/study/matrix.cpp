#include "tools/study/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cubit/quantised_weights.hpp>
#include <numbers>

#include "base/parallel.hpp"
#include "files/text/error.hpp"

namespace cubit::tools {
namespace {

constexpr float kLargestHalf = 65504;
constexpr int kHalfFractionBits = 10;
constexpr int kLeastHalfExponent = -14;
constexpr int kHalfBias = 15;

/// Uniform in (0, 1).
double uniform(std::mt19937& random) { return (static_cast<double>(random()) + 0.5) * 0x1p-32; }

/// Rounds half to even. A magnitude up to kLargestHalf.
std::uint16_t half_bits(float value) {
  const float magnitude = std::fabs(value);
  const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), kLeastHalfExponent) : kLeastHalfExponent;
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, kHalfFractionBits - exponent)));
  const int bits = (exponent + kHalfBias - 1) * (1 << kHalfFractionBits) + units;  // a carry increments the exponent
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}

[[noreturn]] void refuse(const std::string& what, float value) {
  throw WorkFailed(fmt::format("{}: {}", what, value), "it is not finite in fp16, the type between the layers",
                   "give values up to 65504 that are finite");
}

}  // namespace

Matrix random_matrix(std::mt19937& random, std::size_t rows, std::size_t columns, double deviation) {
  Matrix made{rows, columns, std::vector<float>(rows * columns)};
  for (float& value : made.values) {
    // The method of Box and Muller; std::normal_distribution differs between standard libraries.
    const double radius = std::sqrt(-2 * std::log(uniform(random)));
    value = static_cast<float>(deviation * radius * std::cos(2 * std::numbers::pi * uniform(random)));
  }
  return made;
}

Matrix product(const Matrix& inputs, const Matrix& weight) {
  constexpr std::size_t kLanes = 8;  ///< partial sums that the compiler keeps in vector registers
  Matrix made{inputs.rows, weight.rows, std::vector<float>(inputs.rows * weight.rows)};
  parallel_for(static_cast<std::int64_t>(weight.rows), [&](std::int64_t i) {
    const auto out = static_cast<std::size_t>(i);
    for (std::size_t token = 0; token < inputs.rows; ++token) {
      const float* a = inputs.row(token);
      const float* b = weight.row(out);
      double sums[kLanes] = {};
      std::size_t k = 0;
      for (; k + kLanes <= inputs.columns; k += kLanes)
        for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += double{a[k + lane]} * b[k + lane];
      for (; k < inputs.columns; ++k) sums[0] += double{a[k]} * b[k];
      for (std::size_t lane = 1; lane < kLanes; ++lane) sums[0] += sums[lane];
      made.row(token)[out] = static_cast<float>(sums[0]);
    }
  });
  return made;
}

Matrix sum(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

double relative_error(const Matrix& got, const Matrix& exact) {
  double error = 0;
  double square = 0;
  for (std::size_t i = 0; i < exact.values.size(); ++i) {
    error += std::pow(double{got.values[i]} - exact.values[i], 2);
    square += std::pow(double{exact.values[i]}, 2);
  }
  return error == 0 ? 0 : std::sqrt(error / square);
}

std::vector<std::uint16_t> half_values(const Matrix& matrix, const std::string& what) {
  std::vector<std::uint16_t> halves(matrix.values.size());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float value = matrix.values[i];
    if (!(std::fabs(value) <= kLargestHalf)) refuse(what, value);
    halves[i] = half_bits(value);
  }
  return halves;
}

Matrix matrix_of_halves(std::size_t rows, std::size_t columns, std::span<const std::byte> bytes,
                        const std::string& what) {
  Matrix made{rows, columns, {}};
  const std::vector<std::int64_t> shape = made.shape();
  made.values = calibrate::float_values({"F16", shape, bytes});
  for (const float value : made.values)
    if (!std::isfinite(value)) refuse(what, value);
  return made;
}

}  // namespace cubit::tools
