// Registers that change hands within a block.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "codegen/architecture.hpp"

namespace cubit::tests {

/// A block's warps are given as many registers when it begins as its launch bounds allow each; "setmaxnreg" moves those
/// from warp to warp and finds no others: who takes more than is given back waits forever.
inline void expect_block_has_registers(const codegen::Architecture& architecture, int taking_warps, int taken,
                                       int giving_warps, int kept, const std::string& what) {
  const int warps = taking_warps + giving_warps;
  const int each = std::min(architecture.registers_per_thread, architecture.registers_per_sm / (32 * warps)) / 8 * 8;
  EXPECT_LE(taking_warps * taken + giving_warps * kept, warps * each) << what;
  for (const int registers : {taken, kept}) {
    EXPECT_TRUE(registers % 8 == 0 && registers >= 24 && registers <= 256) << what << ": " << registers;
  }
  EXPECT_GE(taken, each) << what;
  EXPECT_LE(kept, each) << what;
}

}  // namespace cubit::tests
