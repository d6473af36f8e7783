// Helpers that the matrix instructions of a warp (matrix.cpp) and of a warpgroup (warpgroup.cpp) share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/cpu/execute/frame.hpp"

namespace cubit::runtime::cpu::helpers {

/// Returns value `index` of `lane`. Values of `bits` bits are packed into 32-bit registers from source `slot` on.
inline std::uint32_t element(Warp& warp, int slot, int lane, int index, int bits) {
  const int per_register = 32 / bits;
  const std::uint32_t word = source<std::uint32_t>(warp, slot + index / per_register)[lane];
  return word >> (index % per_register * bits) & (~0u >> (32 - bits));
}

/// Clamps an integer sum to 32 bits (.satfinite).
inline std::int64_t saturated(std::int64_t value) {
  return std::min<std::int64_t>(std::max<std::int64_t>(value, INT32_MIN), INT32_MAX);
}

/// True if all lanes take part. Returns false if no lane takes part, and after warp.fail().
bool whole_warp(Warp& warp, Mask mask, const Site& site);

}  // namespace cubit::runtime::cpu::helpers
