// Lowers integer and bit instructions. PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions".
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/lower/lowering.hpp"

namespace cubit::runtime::cpu {

using llvm::Intrinsic::ID;

void Lowering::binary(llvm::Instruction::BinaryOps operation) {
  const unsigned bits = type_at_end().bits;
  write(0, builder_.CreateBinOp(operation, read(1, bits), read(2, bits)));
}

Lowering::Value* Lowering::saturating(ID intrinsic) {
  return builder_.CreateBinaryIntrinsic(intrinsic, read(1, 32), read(2, 32));
}

void Lowering::add() {
  const TypeFacts type = type_at_end();
  if (carries()) return add_with_carry(read(1, type.bits), read(2, type.bits));
  if (is_half()) return half_arithmetic(static_cast<int>(helpers::HalfKind::add), 2);
  if (type.is_float) return float_binary(llvm::Instruction::FAdd);
  if (has("sat")) return write(0, saturating(llvm::Intrinsic::sadd_sat));
  binary(llvm::Instruction::Add);
}

void Lowering::subtract() {
  const TypeFacts type = type_at_end();
  if (carries()) return subtract_with_borrow(read(1, type.bits), read(2, type.bits));
  if (is_half()) return half_arithmetic(static_cast<int>(helpers::HalfKind::subtract), 2);
  if (type.is_float) return float_binary(llvm::Instruction::FSub);
  if (has("sat")) return write(0, saturating(llvm::Intrinsic::ssub_sat));
  binary(llvm::Instruction::Sub);
}

/// The .lo, .hi or .wide product of operands 1 and 2. The wide product has twice as many bits.
Lowering::Value* Lowering::product(unsigned bits, bool is_signed) {
  if (has("lo")) return builder_.CreateMul(read(1, bits), read(2, bits));
  Value* const wide =
      builder_.CreateMul(resize(read(1, bits), 2 * bits, is_signed), resize(read(2, bits), 2 * bits, is_signed));
  if (has("wide")) return wide;
  return builder_.CreateTrunc(builder_.CreateLShr(wide, llvm::ConstantInt::get(wide->getType(), bits)), integers(bits));
}

void Lowering::multiply() {
  const TypeFacts type = type_at_end();
  if (is_half()) return half_arithmetic(static_cast<int>(helpers::HalfKind::multiply), 2);
  if (type.is_float) return float_binary(llvm::Instruction::FMul);
  write(0, product(type.bits, type.is_signed));
}

void Lowering::multiply_add() {
  const TypeFacts type = type_at_end();
  if (type.is_float) return fused_multiply_add();
  if (has("sat")) unsupported("saturation of mad is not executed");
  if (carries()) return add_with_carry(product(type.bits, type.is_signed), read(3, type.bits));
  const unsigned bits = has("wide") ? 2 * type.bits : type.bits;
  write(0, builder_.CreateAdd(product(type.bits, type.is_signed), read(3, bits)));
}

void Lowering::integer_helper(int kind) {
  const TypeFacts type = type_at_end();
  Site made = site(helpers::integer);
  made.kind = kind;
  made.bytes = static_cast<int>(type.bits / 8);
  made.is_signed = type.is_signed;
  give(0, read(1, type.bits));
  if (now_->operands.size() > 2) give(1, read(2, type.bits));
  if (now_->operands.size() > 3) give(2, read(3, type.bits));
  call_and_write(std::move(made), type.bits);
}

void Lowering::divide() {
  const TypeFacts type = type_at_end();
  if (!type.is_float) return integer_helper(static_cast<int>(helpers::IntegerKind::divide));
  float_binary(llvm::Instruction::FDiv);
}

void Lowering::remainder() { integer_helper(static_cast<int>(helpers::IntegerKind::remainder)); }

void Lowering::find_leading() {
  const TypeFacts type = type_at_end();
  Site made = site(helpers::integer);
  made.kind = static_cast<int>(helpers::IntegerKind::find_leading);
  made.bytes = static_cast<int>(type.bits / 8);
  made.is_signed = type.is_signed;
  made.flag = has("shiftamt");
  give(0, read(1, type.bits));
  call_and_write(std::move(made), type.bits);
}

/// dp4a.atype.btype: is_signed and flag hold the signedness of the two factors.
void Lowering::dot4() {
  Site made = site(helpers::integer);
  made.kind = static_cast<int>(now_->root == "dp4a" ? helpers::IntegerKind::dot4 : helpers::IntegerKind::dot2);
  made.bytes = 4;
  made.is_signed = type_at_end(1).is_signed;
  made.flag = type_at_end().is_signed;
  made.count = has("hi") ? 1 : 0;
  for (int i = 0; i < 3; ++i) give(i, read(static_cast<std::size_t>(i) + 1, 32));
  call_and_write(std::move(made), 32);
}

void Lowering::dot2() { dot4(); }

void Lowering::sum_of_differences() { integer_helper(static_cast<int>(helpers::IntegerKind::differences)); }

void Lowering::smaller_or_greater(bool greater) {
  const TypeFacts type = type_at_end();
  if (is_half())
    return half_arithmetic(static_cast<int>(greater ? helpers::HalfKind::maximum : helpers::HalfKind::minimum), 2);
  if (type.is_float) {
    Value* result = float_extreme(greater, read_float(1, type.bits), read_float(2, type.bits));
    if (now_->operands.size() > 3) result = float_extreme(greater, result, read_float(3, type.bits));
    return write(0, builder_.CreateBitCast(result, integers(type.bits)));
  }
  const ID signed_form = greater ? llvm::Intrinsic::smax : llvm::Intrinsic::smin;
  const ID unsigned_form = greater ? llvm::Intrinsic::umax : llvm::Intrinsic::umin;
  Value* result = builder_.CreateBinaryIntrinsic(type.is_signed ? signed_form : unsigned_form, read(1, type.bits),
                                                 read(2, type.bits));
  if (has("relu")) result = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, result, splat(0, type.bits));
  write(0, result);
}

void Lowering::minimum() { smaller_or_greater(false); }
void Lowering::maximum() { smaller_or_greater(true); }

void Lowering::bit_and() {
  is_of_predicates() ? write(0, builder_.CreateAnd(read_predicate(1), read_predicate(2)))
                     : binary(llvm::Instruction::And);
}
void Lowering::bit_or() {
  is_of_predicates() ? write(0, builder_.CreateOr(read_predicate(1), read_predicate(2)))
                     : binary(llvm::Instruction::Or);
}
void Lowering::bit_xor() {
  is_of_predicates() ? write(0, builder_.CreateXor(read_predicate(1), read_predicate(2)))
                     : binary(llvm::Instruction::Xor);
}
void Lowering::bit_not() {
  write(0, builder_.CreateNot(is_of_predicates() ? read_predicate(1) : read(1, type_at_end().bits)));
}

void Lowering::logical_not() {
  const unsigned bits = type_at_end().bits;
  Value* const is_zero = builder_.CreateICmpEQ(read(1, bits), splat(0, bits));
  write(0, builder_.CreateZExt(is_zero, integers(bits)));
}

/// Shift amounts beyond the width are clamped to the width: the result is zeros, or copies of the sign.
void Lowering::shift_left() {
  const unsigned bits = type_at_end().bits;
  Value* const amount = read(2, 32);
  Value* const fits = builder_.CreateICmpULT(amount, splat(bits, 32));
  Value* const safe = resize(builder_.CreateAnd(amount, splat(bits - 1, 32)), bits, false);
  write(0, builder_.CreateSelect(fits, builder_.CreateShl(read(1, bits), safe), splat(0, bits)));
}

void Lowering::shift_right() {
  const TypeFacts type = type_at_end();
  Value* const amount = read(2, 32);
  Value* const fits = builder_.CreateICmpULT(amount, splat(type.bits, 32));
  if (type.is_signed) {
    Value* const clamped = builder_.CreateSelect(fits, amount, splat(type.bits - 1, 32));
    return write(0, builder_.CreateAShr(read(1, type.bits), resize(clamped, type.bits, false)), true);
  }
  Value* const safe = resize(builder_.CreateAnd(amount, splat(type.bits - 1, 32)), type.bits, false);
  write(0, builder_.CreateSelect(fits, builder_.CreateLShr(read(1, type.bits), safe), splat(0, type.bits)));
}

/// shf.l takes the high word of {b, a} << c; shf.r takes the low word of {b, a} >> c.
void Lowering::funnel_shift() {
  Value* amount = read(3, 32);
  Value* const whole =
      builder_.CreateOr(builder_.CreateShl(resize(read(2, 32), 64, false), llvm::ConstantInt::get(integers(64), 32)),
                        resize(read(1, 32), 64, false));
  amount = has("clamp") ? builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, amount, splat(32, 32))
                        : builder_.CreateAnd(amount, splat(31, 32));
  Value* const wide = resize(amount, 64, false);
  Value* const shifted =
      has("l") ? builder_.CreateLShr(builder_.CreateShl(whole, wide), llvm::ConstantInt::get(integers(64), 32))
               : builder_.CreateLShr(whole, wide);
  write(0, builder_.CreateTrunc(shifted, integers(32)));
}

void Lowering::population() {
  const unsigned bits = type_at_end().bits;
  write(0, resize(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, read(1, bits)), 32, false));
}

void Lowering::leading_zeros() {
  const unsigned bits = type_at_end().bits;
  Value* const count =
      builder_.CreateIntrinsic(llvm::Intrinsic::ctlz, {integers(bits)}, {read(1, bits), builder_.getFalse()});
  write(0, resize(count, 32, false));
}

void Lowering::reverse_bits() {
  const unsigned bits = type_at_end().bits;
  write(0, builder_.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, read(1, bits)));
}

/// Operand of bfe and bfi: the low byte counts. The PTX ISA does not allow values above 255; for them the 64-bit forms
/// use the whole value, as an H200 does.
Lowering::Value* Lowering::field_operand(std::size_t index, unsigned bits) {
  if (bits == 32) return builder_.CreateAnd(read(index, 32), splat(255, 32));
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, read(index, 32), splat(255, 32));
}

/// bfe: bits beyond the top are copies of the sign (.s) or zeros, also for length 0.
void Lowering::extract_bits() {
  const TypeFacts type = type_at_end();
  const unsigned bits = type.bits;
  Value* const position = field_operand(2, bits);
  Value* const length = field_operand(3, bits);
  Value* const limit = splat(bits, 32);
  const auto least = [&](Value* a, Value* b) { return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, b); };
  // Works in 64 bits with the source extended: shift right, then cut to the length from the top.
  Value* const source = resize(read(1, bits), 64, type.is_signed);
  Value* const distance = resize(least(position, splat(63, 32)), 64, false);
  Value* const beyond = builder_.CreateICmpUGT(position, splat(63, 32));
  Value* const moved = type.is_signed
                           ? builder_.CreateAShr(source, distance)
                           : builder_.CreateSelect(beyond, splat(0, 64), builder_.CreateLShr(source, distance));
  Value* const cut = resize(builder_.CreateSub(splat(64, 32), least(length, limit)), 64, false);
  Value* const top =
      builder_.CreateShl(moved, builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, cut, splat(63, 64)));
  Value* const field = type.is_signed ? builder_.CreateAShr(top, cut) : builder_.CreateLShr(top, cut);
  Value* const empty = builder_.CreateICmpEQ(length, splat(0, 32));
  Value* const none = splat(0, 64);
  write(0, builder_.CreateTrunc(builder_.CreateSelect(empty, none, field), integers(bits)));
}

/// bfi: inserts the low `length` bits of operand 1 into operand 2 at `position`. No bit goes beyond the top.
void Lowering::insert_bits() {
  const unsigned bits = type_at_end().bits;
  Value* const position = field_operand(3, bits);
  Value* const length = field_operand(4, bits);
  const auto shifted = [&](Value* value, Value* amount) {  // in 64 bits; the result is 0 for amounts from 64 on
    Value* const distance = resize(builder_.CreateAnd(amount, splat(63, 32)), 64, false);
    Value* const beyond = builder_.CreateICmpUGT(amount, splat(63, 32));
    return builder_.CreateSelect(beyond, splat(0, 64), builder_.CreateShl(value, distance));
  };
  Value* const ones = builder_.CreateSub(shifted(splat(1, 64), length), splat(1, 64));
  Value* const field = shifted(ones, position);
  Value* const moved = shifted(resize(read(1, bits), 64, false), position);
  Value* const kept = builder_.CreateAnd(resize(read(2, bits), 64, false), builder_.CreateNot(field));
  write(0, builder_.CreateTrunc(builder_.CreateOr(kept, builder_.CreateAnd(moved, field)), integers(bits)));
}

/// The result is bit (a, b, c) of the table, where a is the highest index bit. Computed as a sum of minterms.
void Lowering::logic3() {
  const auto* const table = std::get_if<ptx::IntegerOperand>(&operand(4));
  if (table == nullptr) unsupported("the table must be a constant");
  Value* const inputs[] = {read(1, 32), read(2, 32), read(3, 32)};
  Value* result = splat(0, 32);
  for (unsigned row = 0; row < 8; ++row) {
    if ((table->bits >> row & 1) == 0) continue;
    Value* term = splat(~0ULL, 32);
    for (unsigned i = 0; i < 3; ++i) {
      const bool positive = (row >> (2 - i) & 1) != 0;
      term = builder_.CreateAnd(term, positive ? inputs[i] : builder_.CreateNot(inputs[i]));
    }
    result = builder_.CreateOr(result, term);
  }
  write(0, result);
}

/// prmt: with a constant selector byte by byte; with a mode or a selector in a register in C++.
void Lowering::permute() {
  const auto* const selector = std::get_if<ptx::IntegerOperand>(&operand(3));
  const bool has_mode = now_->modifiers.size() > 1;
  if (selector == nullptr || has_mode) {
    static constexpr std::string_view kModes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    Site made = site(helpers::integer);
    made.kind = static_cast<int>(helpers::IntegerKind::permute);
    for (int i = 1; i < 7; ++i) {
      if (has(kModes[i])) made.count = i + 1;
    }
    made.bytes = 4;
    for (int i = 0; i < 3; ++i) give(i, read(static_cast<std::size_t>(i) + 1, 32));
    return call_and_write(std::move(made), 32);
  }
  Value* const words[] = {read(1, 32), read(2, 32)};
  Value* result = splat(0, 32);
  for (unsigned i = 0; i < 4; ++i) {
    const auto nibble = static_cast<unsigned>(selector->bits >> (4 * i) & 15);
    // at the top
    Value* byte = builder_.CreateShl(words[nibble >> 2 & 1], splat(24 - 8 * (nibble & 3), 32));
    if ((nibble & 8) != 0) {
      byte = builder_.CreateAnd(builder_.CreateAShr(byte, splat(31, 32)), splat(0xff, 32));
    } else {
      byte = builder_.CreateLShr(byte, splat(24, 32));
    }
    result = builder_.CreateOr(result, builder_.CreateShl(byte, splat(std::uint64_t{8} * i, 32)));
  }
  write(0, result);
}

}  // namespace cubit::runtime::cpu
