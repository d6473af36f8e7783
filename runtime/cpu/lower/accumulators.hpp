// Which registers may hold a result of wgmma.mma_async that is not there yet: its accumulators, and what they are moved
// to, for compilers move them about as they like.
#pragma once

#include <vector>

#include "runtime/cpu/ptx/ast.hpp"

namespace cubit::runtime::cpu {

bool is_warpgroup_product(const ptx::Instruction& instruction);

/// Whether it moves one register to another, whole.
bool is_copy(const ptx::Instruction& instruction);

/// A number for each of them, from 0 on; ptx::kNone for other registers. By Function::registers.
std::vector<int> accumulator_numbers(const ptx::Function& function);

}  // namespace cubit::runtime::cpu
