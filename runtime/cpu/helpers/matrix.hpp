// What the matrix instructions of a warp and of a warpgroup share.
#pragma once

#include "runtime/cpu/execute/frame.hpp"

namespace cubit::runtime::cpu::helpers {

/// Bits of value `index` of `lane` in registers of 32 bits from source `slot` on, `bits` to a value.
inline std::uint32_t element(Warp& warp, int slot, int lane, int index, int bits) {
  const int per_register = 32 / bits;
  const std::uint32_t word = source<std::uint32_t>(warp, slot + index / per_register)[lane];
  return word >> (index % per_register * bits) & (~0u >> (32 - bits));
}

/// Every lane takes part, or nobody does; false also after warp.fail().
bool whole_warp(Warp& warp, Mask mask, const Site& site);

}  // namespace cubit::runtime::cpu::helpers
