// Finds registers that may hold an unfinished result of wgmma.mma_async: the accumulators, and the registers that they
// are copied to. Compilers copy accumulators freely.
#pragma once

#include <vector>

#include "runtime/cpu/ptx/ast.hpp"

namespace cubit::runtime::cpu {

bool is_warpgroup_product(const ptx::Instruction& instruction);

/// True if the instruction copies one whole register to another.
bool is_copy(const ptx::Instruction& instruction);

/// Numbers the accumulator registers from 0 on; ptx::kNone for all other registers. The index is that of
/// Function::registers.
std::vector<int> accumulator_numbers(const ptx::Function& function);

}  // namespace cubit::runtime::cpu
