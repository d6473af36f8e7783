// Compares modules value by value, except for line numbers, names inside bodies and the order of source places.
#pragma once

#include <string>

#include "runtime/cpu/ptx/ast.hpp"

namespace cubit::runtime::ptx {

/// Returns "" if the modules are equal, otherwise the first difference.
std::string difference(const Module& a, const Module& b);

}  // namespace cubit::runtime::ptx
