// 16-bit values on the host: names, and conversions that round as the kernels do.
#pragma once

#include <cubit/element.hpp>

#include <cstdint>
#include <string_view>

namespace cubit::ops {

std::string_view element_type(Element element);  ///< "BF16", as safetensors spells it
std::string_view device_type(Element element);   ///< "cubit::Bfloat16", as a plan spells it

double to_double(Element element, std::uint16_t bits);
std::uint16_t from_float(Element element, float value);  ///< nearest even

/// found - reference, of an output. Zero where it is the infinity that the reference rounds to, or could with an error
/// of `tolerance` of itself: about there both are right. NaN where only one of the two is beyond all numbers, or is
/// none.
double difference_of(Element element, double found, double reference, double tolerance);

}  // namespace cubit::ops
