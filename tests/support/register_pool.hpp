// Checks register transfers between the warps of a block (setmaxnreg).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "codegen/architecture.hpp"

namespace cubit::tests {

/// Registers per thread at the start, for a block that is alone on its multiprocessor: the most that its launch bounds
/// allow.
inline int registers_at_launch(const codegen::Architecture& architecture, int threads) {
  return std::min(architecture.registers_per_thread, architecture.registers_per_sm / threads) / 8 * 8;
}

/// "setmaxnreg" moves registers between warps within the block's initial registers. A warp that takes more registers
/// than the other warps give back waits forever.
inline void expect_block_has_registers(const codegen::Architecture& architecture, int taking_warps, int taken,
                                       int giving_warps, int kept, const std::string& what) {
  const int warps = taking_warps + giving_warps;
  const int each = registers_at_launch(architecture, 32 * warps);
  EXPECT_LE(taking_warps * taken + giving_warps * kept, warps * each) << what;
  for (const int registers : {taken, kept}) {
    EXPECT_TRUE(registers % 8 == 0 && registers >= 24 && registers <= 256) << what << ": " << registers;
  }
  EXPECT_GE(taken, each) << what;
  EXPECT_LE(kept, each) << what;
}

}  // namespace cubit::tests
