// Lowers additions and subtractions of several words. PTX ISA, "Extended-Precision Integer Arithmetic Instructions".
//
// The carry flag lives within a segment, because compilers keep such a chain together.
#include "runtime/cpu/lower/lowering.hpp"

namespace cubit::runtime::cpu {

bool Lowering::carries() const { return has("cc") || now_->root.ends_with("c"); }

Lowering::Value* Lowering::carry_in(unsigned bits) {
  if (!now_->root.ends_with("c")) return splat(0, bits);
  if (carry_ == nullptr) unsupported("the carry comes from behind a branch or a barrier");
  return builder_.CreateZExt(carry_, integers(bits));
}

void Lowering::carry_out(Value* carry) {
  if (!has("cc")) return;
  if (guard_ != nullptr) carry = builder_.CreateSelect(guard_, carry, carry_ == nullptr ? splat(0, 1) : carry_);
  carry_ = carry;
}

void Lowering::add_with_carry(Value* a, Value* b) {
  Value* const in = carry_in(type_at_end().bits);
  Value* const partial = builder_.CreateAdd(a, b);
  Value* const sum = builder_.CreateAdd(partial, in);
  carry_out(builder_.CreateOr(builder_.CreateICmpULT(partial, a), builder_.CreateICmpULT(sum, partial)));
  write(0, sum);
}

void Lowering::subtract_with_borrow(Value* a, Value* b) {
  Value* const in = carry_in(type_at_end().bits);
  Value* const partial = builder_.CreateSub(a, b);
  Value* const difference = builder_.CreateSub(partial, in);
  carry_out(builder_.CreateOr(builder_.CreateICmpULT(a, b), builder_.CreateICmpULT(partial, in)));
  write(0, difference);
}

}  // namespace cubit::runtime::cpu
