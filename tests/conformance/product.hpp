// Measures how far results of mma.sync are from the exact matrix product, in units of the bound in
// runtime/cpu/arithmetic/tensor_core.hpp.
#pragma once

#include <vector>

#include "tests/conformance/cases.hpp"

namespace cubit::conformance {

/// One error for each result, in the order of `results`. The error is infinite if the exact result is infinite or NaN
/// and the result is different.
std::vector<double> product_errors(const Case& given, const std::vector<std::byte>& results);

}  // namespace cubit::conformance
