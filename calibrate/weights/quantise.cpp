// Quantises weights to 8 bits with a scale per output channel or per tensor.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cubit/quantised_weights.hpp>
#include <limits>
#include <string>
#include <vector>

#include "base/parallel.hpp"
#include "calibrate/errors.hpp"
#include "calibrate/ranges/levels.hpp"
#include "calibrate/statistics/values.hpp"

namespace cubit::calibrate {
namespace {

constexpr float kLargestInt8 = 127;
constexpr float kLeastScale = std::numeric_limits<float>::min();
constexpr std::int64_t kRowsOfThread = 16;

/// Rounds half to even. `x` is below 2^22.
float rounded(float x) {
  constexpr float kUnits = 0x1.8p23F;  // the neighbours of this number are 1 apart
  return x + kUnits - kUnits;
}

std::byte int8_code(float steps) {
  return static_cast<std::byte>(static_cast<std::int8_t>(std::clamp(rounded(steps), -kLargestInt8, kLargestInt8)));
}

/// The magnitudes from 2^-6 to 448 have 3 bits of fraction, and smaller ones are multiples of 2^-9.
std::byte e4m3_code(float steps) {
  constexpr int kBias = 7;
  constexpr int kFractionBits = 3;
  const float magnitude = std::min(std::fabs(steps), static_cast<float>(kLargestE4m3));
  const int exponent = std::max(static_cast<int>(std::bit_cast<std::uint32_t>(magnitude) >> 23) - 127, 1 - kBias);
  const auto units = static_cast<int>(rounded(std::ldexp(magnitude, kFractionBits - exponent)));
  const int code = (exponent + kBias - 1) * (1 << kFractionBits) + units;  // a carry increments the exponent
  return static_cast<std::byte>(code | (std::signbit(steps) ? 0x80 : 0));
}

class Weights {
 public:
  explicit Weights(const Tensor& tensor) : tensor_(tensor), type_(parse_value_type(tensor.type)) {
    if (tensor.shape.size() != 2)
      refuse("weights with " + std::to_string(tensor.shape.size()) + " dimensions", "are not those of a linear layer",
             "give a tensor [n, k]");
    require_size(tensor);
  }
  std::int64_t rows() const { return tensor_.shape[0]; }
  std::size_t columns() const { return static_cast<std::size_t>(tensor_.shape[1]); }

  std::vector<float> row(std::int64_t index) const {
    const std::size_t bytes = columns() * bytes_of(type_);
    return floats_of(type_, tensor_.data.subspan(static_cast<std::size_t>(index) * bytes, bytes));
  }
  float magnitude(std::int64_t index) const {
    float largest = 0;
    for (const float value : row(index)) {
      if (!std::isfinite(value))
        refuse("a weight of output channel " + std::to_string(index), "is not finite",
               "give weights without NaNs and infinities");
      largest = std::max(largest, std::fabs(value));
    }
    return largest;
  }

 private:
  const Tensor& tensor_;
  ValueType type_;
};

std::vector<float> scales_of(const Weights& weights, float largest_code, bool per_channel) {
  std::vector<float> magnitudes(static_cast<std::size_t>(weights.rows()));
  parallel_for(
      weights.rows(), [&](std::int64_t row) { magnitudes[static_cast<std::size_t>(row)] = weights.magnitude(row); },
      kRowsOfThread);
  if (!per_channel) {
    const auto largest = std::max_element(magnitudes.begin(), magnitudes.end());
    magnitudes = {largest == magnitudes.end() ? 0 : *largest};
  }
  for (float& magnitude : magnitudes) magnitude = magnitude > 0 ? std::max(magnitude / largest_code, kLeastScale) : 1;
  return magnitudes;
}

struct SquareSums {
  double difference = 0;
  double weight = 0;
};

/// Writes the codes of a row.
SquareSums quantise_row(std::span<const float> row, float scale, Format format, std::span<const double> values,
                        std::byte* codes) {
  SquareSums squares;
  for (std::size_t i = 0; i < row.size(); ++i) {
    codes[i] = format == Format::int8 ? int8_code(row[i] / scale) : e4m3_code(row[i] / scale);
    const double difference = values[static_cast<std::size_t>(codes[i])] * scale - row[i];
    squares.difference += difference * difference;
    squares.weight += static_cast<double>(row[i]) * row[i];
  }
  return squares;
}

/// The number that each code stands for.
std::vector<double> values_of_codes(Format format) {
  std::vector<double> values(256);
  for (int code = 0; code < 256; ++code)
    values[static_cast<std::size_t>(code)] = static_cast<std::int8_t>(static_cast<std::uint8_t>(code));
  if (format == Format::int8) return values;
  const Levels levels(format);
  const std::size_t zero = levels.values.size() / 2;
  for (std::size_t magnitude = 0; magnitude <= zero; ++magnitude) {
    values[magnitude] = levels.values[zero + magnitude] * kLargestE4m3;
    values[128 + magnitude] = -values[magnitude];
  }
  return values;
}

}  // namespace

std::vector<float> float_values(const Tensor& tensor) {
  return at_surface([&] {
    require_size(tensor);
    return floats_of(parse_value_type(tensor.type), tensor.data);
  });
}

QuantisedWeights quantise_weights(const Tensor& tensor, Format format, bool per_channel) {
  return at_surface([&] {
    if (format == Format::int8_asymmetric)
      refuse("format int8_asymmetric", "does not serve weights", "accepted: int8, e4m3");
    const Weights weights(tensor);
    QuantisedWeights result;
    result.scales =
        scales_of(weights, format == Format::int8 ? kLargestInt8 : static_cast<float>(kLargestE4m3), per_channel);
    result.codes.resize(static_cast<std::size_t>(weights.rows()) * weights.columns());
    const std::vector<double> values = values_of_codes(format);
    std::vector<SquareSums> squares(static_cast<std::size_t>(weights.rows()));
    const auto quantise_one = [&](std::int64_t row) {
      const auto at = static_cast<std::size_t>(row);
      squares[at] = quantise_row(weights.row(row), result.scales[per_channel ? at : 0], format, values,
                                 result.codes.data() + at * weights.columns());
    };
    parallel_for(weights.rows(), quantise_one, kRowsOfThread);
    SquareSums all;
    for (const SquareSums& one : squares) {
      all.difference += one.difference;
      all.weight += one.weight;
    }
    result.error = all.weight > 0 ? std::sqrt(all.difference / all.weight) : 0;
    return result;
  });
}

}  // namespace cubit::calibrate
