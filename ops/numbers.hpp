// Numbers by name: sizes and launch arguments as callers give them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

struct cubit_number;  // of <cubit/cubit.h>, which operators need not read

namespace cubit::ops {

using Numbers = std::map<std::string, double>;  ///< "softmax_scale" -> 0.0883

/// The numbers of a C array. `parameter` names the array in the error if the array is NULL.
/// Throws Failure(invalid_argument), also for a name that is given twice.
Numbers numbers_of(const cubit_number* numbers, std::size_t count, const char* parameter);

/// The value as a whole number. Throws Failure(invalid_argument) unless it is one from `least` to `most`.
std::int64_t whole_number(std::string_view name, double value, double least, double most);

}  // namespace cubit::ops
