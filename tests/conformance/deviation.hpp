// How far two results of a case are apart, in the terms of its rule.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/cases.hpp"

namespace cubit::conformance {

/// Empty if `cpu` is within the rule of `gpu`; otherwise the first place where it is not, with its operands, and how
/// many there are. Both as comparable() gives them.
std::string first_difference(const Case& given, const std::vector<std::byte>& gpu, const std::vector<std::byte>& cpu);

/// The largest error in units of the last place and of the rule's bound: "1 ulp, 2^-22.4 relative, 0.61 of the bound".
/// Empty where results are compared bit for bit.
std::string largest_deviation(const Case& given, const std::vector<std::byte>& gpu, const std::vector<std::byte>& cpu);

}  // namespace cubit::conformance
