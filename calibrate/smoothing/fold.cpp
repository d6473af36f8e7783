// Folds the factors of SmoothQuant into norms and weights.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cubit/smooth.hpp>
#include <string>
#include <vector>

#include "calibrate/errors.hpp"
#include "calibrate/statistics/values.hpp"

namespace cubit::calibrate {
namespace {

constexpr float kLargestRounding = 1.5F;  ///< how far the factor of a rounded norm may be from the wanted factor

ValueType foldable_type(std::string_view text) {
  const ValueType type = parse_value_type(text);
  if (type == ValueType::e4m3 || type == ValueType::e5m2)
    refuse("type " + std::string(text), "is that of quantised weights", "accepted: F64, F32, F16, BF16");
  return type;
}

/// Round to nearest even. The sum with 0.5 rounds a subnormal number of fp16 at its last bit.
std::uint16_t f16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t half = 0;
  if (magnitude >= 0x47800000U) {  // 2^16 and above
    half = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  } else if (magnitude < 0x38800000U) {  // below 2^-14
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  } else {
    half = (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13 & 1)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1)) >> 16);
}

std::vector<double> decoded(ValueType type, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / bytes_of(type));
  if (type == ValueType::f64) {
    decode(type, bytes.data(), std::span(values));
  } else {
    std::vector<float> narrow(values.size());
    decode(type, bytes.data(), std::span(narrow));
    std::copy(narrow.begin(), narrow.end(), values.begin());
  }
  return values;
}

void encode(ValueType type, std::span<const double> values, std::span<std::byte> bytes) {
  const std::size_t size = bytes_of(type);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto narrow = static_cast<float>(values[i]);
    const std::uint16_t half = type == ValueType::f16 ? f16_bits(narrow) : bf16_bits(narrow);
    const void* source = &half;
    if (type == ValueType::f64) source = &values[i];
    if (type == ValueType::f32) source = &narrow;
    std::memcpy(bytes.data() + i * size, source, size);
  }
}

double rounded(ValueType type, double value) {
  std::byte bytes[sizeof(double)];
  const std::span<std::byte> used(bytes, bytes_of(type));
  encode(type, {&value, 1}, used);
  return decoded(type, used)[0];
}

void require_channels(ValueType type, std::span<const std::byte> bytes, std::size_t channels) {
  if (bytes.size() != channels * bytes_of(type))
    refuse("a norm of " + std::to_string(bytes.size() / bytes_of(type)) + " channels",
           "does not fit the " + std::to_string(channels) + " input channels of its layers",
           "give a norm and layers that belong together");
}

}  // namespace

void fold_norm(MutableTensor weight, MutableTensor bias, bool norm_adds_one, std::span<float> factors) {
  at_surface([&] {
    const ValueType type = foldable_type(weight.type);
    require_channels(type, weight.data, factors.size());
    const double added = norm_adds_one ? 1 : 0;
    std::vector<double> values = decoded(type, weight.data);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double before = values[i] + added;
      const double wanted = rounded(type, before / factors[i] - added);
      const auto factor = before == 0 ? factors[i] : static_cast<float>(before / (wanted + added));
      const float change = factor / factors[i];
      if (std::isfinite(wanted) && change < kLargestRounding && change > 1 / kLargestRounding) {
        values[i] = wanted;
        factors[i] = factor;
      } else {
        factors[i] = 1;
      }
    }
    encode(type, values, weight.data);
    if (bias.data.empty()) return;
    const ValueType bias_type = foldable_type(bias.type);
    require_channels(bias_type, bias.data, factors.size());
    std::vector<double> biases = decoded(bias_type, bias.data);
    for (std::size_t i = 0; i < biases.size(); ++i) {
      const bool was_finite = std::isfinite(biases[i]);
      biases[i] = rounded(bias_type, biases[i] / factors[i]);
      if (was_finite && !std::isfinite(biases[i]))
        refuse("the bias of channel " + std::to_string(i), "is too large for " + std::string(bias.type) + " afterwards",
               "give a checkpoint in BF16 or F32");
    }
    encode(bias_type, biases, bias.data);
  });
}

void fold_weight(MutableTensor weight, std::uint64_t first, std::uint64_t columns, bool input_first,
                 std::span<const float> factors) {
  at_surface([&] {
    const ValueType type = foldable_type(weight.type);
    std::vector<double> values = decoded(type, weight.data);
    const std::uint64_t end = first + values.size();
    if (columns == 0 || (input_first ? (end + columns - 1) / columns > factors.size() : columns != factors.size()))
      refuse("a weight with " + std::to_string(columns) + " columns",
             "does not fit " + std::to_string(factors.size()) + " factors", "give a factor for each input channel");
    const double largest = type == ValueType::f16 ? 65519 : std::numeric_limits<float>::max();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint64_t element = first + i;
      const double before = values[i];
      values[i] *= factors[input_first ? element / columns : element % columns];
      if (std::abs(values[i]) > largest && std::abs(before) <= largest && type != ValueType::f64)
        refuse("a weight of input channel " + std::to_string(input_first ? element / columns : element % columns),
               "is too large for " + std::string(weight.type) + " afterwards", "give a checkpoint in BF16 or F32");
    }
    encode(type, values, weight.data);
  });
}

}  // namespace cubit::calibrate
