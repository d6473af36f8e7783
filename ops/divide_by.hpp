// Makes the constants with which a kernel divides by a number that only the launch knows (templates/core/divide_by.h).
#pragma once

#include <bit>
#include <cstdint>

#include "templates/core/divide_by.h"

namespace cubit::ops {

/// A multiplier and a shift that replace the division. `divisor`: 1 to 2^31 - 1.
constexpr DivideBy divide_by(std::int64_t divisor) {
  const int shift = 31 + static_cast<int>(std::bit_width(static_cast<std::uint64_t>(divisor - 1)));
  const std::uint64_t multiplier = ((std::uint64_t{1} << shift) + divisor - 1) / divisor;
  return {static_cast<unsigned>(divisor), static_cast<unsigned>(multiplier), shift};
}

}  // namespace cubit::ops
