// How far results of mma.sync are from the exact matrix product, in units of the bound that runtime/cpu/arithmetic/tensor_core.hpp
// states.
#pragma once

#include <vector>

#include "tests/conformance/cases.hpp"

namespace cubit::conformance {

/// One for each result, in the order of `results`. Infinite where the exact one is not a number or infinite and the
/// result is something else.
std::vector<double> product_errors(const Case& given, const std::vector<std::byte>& results);

}  // namespace cubit::conformance
