// The 16-bit types on the host: their names, and conversions that round as the kernels do.
#pragma once

#include <cubit/element.hpp>

#include <cstdint>
#include <string_view>

namespace cubit::ops {

std::string_view element_type(Element element);  ///< "BF16", as safetensors spells it
std::string_view device_type(Element element);   ///< "cubit::Bfloat16", as a plan spells it

double to_double(Element element, std::uint16_t bits);
std::uint16_t from_float(Element element, float value);  ///< rounds to nearest, ties to even

/// The error of an output: found - reference. If `found` is infinite, the error is 0 if the reference, changed by at
/// most the relative `tolerance`, rounds to the same infinity; near the largest finite number both results are right.
/// The error is NaN if only one of the two is out of range, or if one is NaN.
double difference_of(Element element, double found, double reference, double tolerance);

}  // namespace cubit::ops
