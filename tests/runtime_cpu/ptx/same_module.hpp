// Compares modules value by value, but for line numbers, names inside bodies and the order of source places.
#pragma once

#include <string>

#include "runtime/cpu/ptx/ast.hpp"

namespace cubit::runtime::ptx {

/// Empty if equal, else what differs first.
std::string difference(const Module& a, const Module& b);

}  // namespace cubit::runtime::ptx
