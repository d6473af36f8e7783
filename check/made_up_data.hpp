// The limit of how much made-up data an operator makes for `--random`.
#pragma once

#include <string>

#include "base/memory.hpp"

namespace cubit::check {

/// Throws Failure(invalid_argument) for more than 64 GiB, or for more than the machine's free memory. `given` is the
/// first part of the error: "n = 8 and k = 64".
void require_made_up(const std::string& given, double bytes, const std::string& remedy,
                     double available = static_cast<double>(available_memory()));

}  // namespace cubit::check
