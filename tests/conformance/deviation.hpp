// Measures how far two results of a case are apart, in the terms of the case's rule.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/cases.hpp"

namespace cubit::conformance {

/// Returns "" if `cpu` is within the rule of `gpu`; otherwise the first deviating place with its operands, and the
/// number of such places. Both outputs are results of comparable().
std::string first_difference(const Case& given, const std::vector<std::byte>& gpu, const std::vector<std::byte>& cpu);

/// Returns the largest error in units of the last place and relative to the rule's bound: "1 ulp, 2^-22.4 relative,
/// 0.61 of the bound". Returns "" if results are compared bit for bit.
std::string largest_deviation(const Case& given, const std::vector<std::byte>& gpu, const std::vector<std::byte>& cpu);

}  // namespace cubit::conformance
