// Finds accumulators by following copies of wgmma results from register to register.
#include "runtime/cpu/lower/accumulators.hpp"

#include "runtime/cpu/lower/control.hpp"

namespace cubit::runtime::cpu {
namespace {

/// Gives `reg` a number. Returns false if `reg` has a number already.
bool number(std::vector<int>& numbers, int reg, int& next) {
  int& own = numbers[static_cast<std::size_t>(reg)];
  if (own != ptx::kNone) return false;
  own = next++;
  return true;
}

}  // namespace

bool is_warpgroup_product(const ptx::Instruction& instruction) {
  return instruction.root == "wgmma" && instruction.has("mma_async");
}

bool is_copy(const ptx::Instruction& instruction) {
  return instruction.root == "mov" && instruction.operands.size() == 2 &&
         std::holds_alternative<ptx::RegisterOperand>(instruction.operands[0]) &&
         std::holds_alternative<ptx::RegisterOperand>(instruction.operands[1]);
}

std::vector<int> accumulator_numbers(const ptx::Function& function) {
  std::vector<int> numbers(function.registers.size(), ptx::kNone);
  int next = 0;
  for (const ptx::Instruction& instruction : function.body) {
    if (!is_warpgroup_product(instruction)) continue;
    for (const int reg : accesses_of(instruction).writes) number(numbers, reg, next);
  }
  for (bool changed = next != 0; changed;) {
    changed = false;
    for (const ptx::Instruction& instruction : function.body) {
      if (!is_copy(instruction)) continue;
      const int src = std::get<ptx::RegisterOperand>(instruction.operands[1]).index;
      const int dst = std::get<ptx::RegisterOperand>(instruction.operands[0]).index;
      if (numbers[static_cast<std::size_t>(src)] != ptx::kNone) changed |= number(numbers, dst, next);
    }
  }
  return numbers;
}

}  // namespace cubit::runtime::cpu
