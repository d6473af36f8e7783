#include "calibrate/statistics/values.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "calibrate/errors.hpp"

namespace cubit::calibrate {
namespace {

struct NamedType {
  std::string_view name;
  ValueType type;
  std::size_t bytes;
};
constexpr std::array<NamedType, 6> kTypes = {{{"F64", ValueType::f64, 8},
                                              {"F32", ValueType::f32, 4},
                                              {"F16", ValueType::f16, 2},
                                              {"BF16", ValueType::bf16, 2},
                                              {"F8_E4M3", ValueType::e4m3, 1},
                                              {"F8_E5M2", ValueType::e5m2, 1}}};

/// Written for the vectoriser: the product moves the exponent's bias, also of denormal numbers.
void decode_f16(const std::byte* bytes, std::span<float> values) {
  constexpr float kBias = 0x1p112F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes + 2 * i, sizeof half);
    const std::uint32_t magnitude = half & 0x7fffU;
    const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * kBias);
    const std::uint32_t other = magnitude << 13 | 0x7f800000U;
    const std::uint32_t sign = (half & 0x8000U) << 16;
    values[i] = std::bit_cast<float>((magnitude < 0x7c00U ? finite : other) | sign);
  }
}

void decode_bf16(const std::byte* bytes, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes + 2 * i, sizeof half);
    values[i] = std::bit_cast<float>(std::uint32_t{half} << 16);
  }
}

float e4m3_value(unsigned code) {
  const unsigned exponent = code >> 3 & 15;
  const auto fraction = static_cast<float>(code & 7);
  const float value =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, static_cast<int>(exponent) - 10);
  const float magnitude = (code & 0x7f) == 0x7f ? std::numeric_limits<float>::quiet_NaN() : value;
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

/// An e5m2 number is the upper half of an fp16 number.
float e5m2_value(unsigned code) {
  const std::array<std::byte, 2> half = {std::byte{0}, static_cast<std::byte>(code)};
  float value = 0;
  decode_f16(half.data(), {&value, 1});
  return value;
}

template <float Value(unsigned)>
void decode_table(const std::byte* bytes, std::span<float> values) {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> made{};
    for (unsigned code = 0; code < made.size(); ++code) made[code] = Value(code);
    return made;
  }();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = table[static_cast<std::size_t>(bytes[i])];
}

std::uint64_t elements_of(std::span<const std::int64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements))
      refuse("a shape", "has a negative or too large size", "give the shape of the tensor's data");
  return elements;
}

}  // namespace

ValueType parse_value_type(std::string_view text) {
  for (const NamedType& type : kTypes)
    if (type.name == text) return type.type;
  refuse("type " + std::string(text), "is not a floating-point type",
         "accepted: F64, F32, F16, BF16, F8_E4M3, F8_E5M2");
}

std::uint64_t require_size(const Tensor& tensor) {
  const std::size_t element = bytes_of(parse_value_type(tensor.type));
  const std::uint64_t elements = elements_of(tensor.shape);
  if (tensor.data.size() / element != elements || tensor.data.size() % element != 0)
    refuse("a tensor of " + std::to_string(tensor.data.size()) + " bytes",
           "does not have the size of its shape and type", "give " + std::to_string(elements) + " elements");
  return elements;
}

std::size_t bytes_of(ValueType type) { return kTypes[static_cast<std::size_t>(type)].bytes; }

void decode(ValueType type, const std::byte* bytes, std::span<float> values) {
  switch (type) {
    case ValueType::f16:
      return decode_f16(bytes, values);
    case ValueType::bf16:
      return decode_bf16(bytes, values);
    case ValueType::e4m3:
      return decode_table<e4m3_value>(bytes, values);
    case ValueType::e5m2:
      return decode_table<e5m2_value>(bytes, values);
    case ValueType::f32:
    case ValueType::f64:
      break;
  }
  std::memcpy(values.data(), bytes, values.size_bytes());
}

void decode(ValueType /*type*/, const std::byte* bytes, std::span<double> values) {
  std::memcpy(values.data(), bytes, values.size_bytes());
}

std::vector<float> floats_of(ValueType type, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / bytes_of(type));
  if (type != ValueType::f64) {
    decode(type, bytes.data(), std::span(values));
    return values;
  }
  std::vector<double> wide(values.size());
  decode(type, bytes.data(), std::span(wide));
  std::transform(wide.begin(), wide.end(), values.begin(), [](double value) { return static_cast<float>(value); });
  return values;
}

}  // namespace cubit::calibrate
