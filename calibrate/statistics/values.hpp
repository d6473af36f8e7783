// Decodes tensor elements of any float type. Every type but F64 is exact in float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <span>
#include <string_view>
#include <vector>

namespace cubit::calibrate {

enum class ValueType { f64, f32, f16, bf16, e4m3, e5m2 };

/// The type that safetensors spells `text`. Throws Failure.
ValueType parse_value_type(std::string_view text);
std::size_t bytes_of(ValueType type);

/// The number of elements. Throws Failure if the type is unknown or the data do not have the size of shape and type.
std::uint64_t require_size(const Tensor& tensor);

/// Decodes values.size() elements. F64 has only the second function, the other types only the first.
void decode(ValueType type, const std::byte* bytes, std::span<float> values);
void decode(ValueType type, const std::byte* bytes, std::span<double> values);

/// Decodes all of `bytes`. F64 is rounded to float.
std::vector<float> floats_of(ValueType type, std::span<const std::byte> bytes);

}  // namespace cubit::calibrate
