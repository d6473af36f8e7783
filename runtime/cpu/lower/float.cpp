// Lowers floating-point instructions. PTX ISA, "Floating Point Instructions", "Half Precision Floating Point
// Instructions".
//
// Single-precision results follow the ISA: every NaN result is 0x7fffffff, and .ftz flushes subnormal operands and
// results to zero of the same sign. Rounding modes other than to nearest run in C++ helpers.
#include <cmath>
#include <map>

#include "base/lifetime.hpp"
#include "runtime/cpu/arithmetic/numbers.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/lower/lowering.hpp"

namespace cubit::runtime::cpu {

namespace {

constexpr std::uint64_t kNan32 = 0x7fffffff;
constexpr std::uint64_t kSign32 = 0x80000000;
constexpr std::uint64_t kSmallestNormal32 = 0x00800000;

}  // namespace

bool Lowering::is_half() const {
  const ptx::Type type = type_at_end().type;
  return type == ptx::Type::f16 || type == ptx::Type::f16x2 || type == ptx::Type::bf16 || type == ptx::Type::bf16x2;
}

Lowering::Value* Lowering::flushed(Value* value) {
  Value* const bits = builder_.CreateBitCast(value, integers(32));
  Value* const magnitude = builder_.CreateAnd(bits, splat(~kSign32, 32));
  Value* const small = builder_.CreateICmpULT(magnitude, splat(kSmallestNormal32, 32));
  Value* const zero = builder_.CreateAnd(bits, splat(kSign32, 32));
  return builder_.CreateBitCast(builder_.CreateSelect(small, zero, bits), floats(32));
}

Lowering::Value* Lowering::canonical(Value* value) {
  Value* const nan = builder_.CreateBitCast(splat(kNan32, 32), floats(32));
  return builder_.CreateSelect(builder_.CreateFCmpUNO(value, value), nan, value);
}

void Lowering::write_float(std::size_t index, Value* value) {
  const bool single = value->getType() == floats(32);
  if (has("sat")) {
    // NaN becomes +0.
    Value* const zero = llvm::ConstantFP::get(value->getType(), 0.0);
    Value* const one = llvm::ConstantFP::get(value->getType(), 1.0);
    value = builder_.CreateSelect(builder_.CreateFCmpOGT(value, zero), value, zero);
    value = builder_.CreateSelect(builder_.CreateFCmpOLT(value, one), value, one);
  }
  if (single && has("ftz")) value = flushed(value);
  if (single) value = canonical(value);
  write(index, builder_.CreateBitCast(value, integers(single ? 32 : 64)));
}

void Lowering::float_binary(llvm::Instruction::BinaryOps operation) {
  using Kind = helpers::RoundedKind;
  if (rounds_otherwise()) {
    return rounded(static_cast<int>(operation == llvm::Instruction::FAdd   ? Kind::add
                                    : operation == llvm::Instruction::FSub ? Kind::subtract
                                    : operation == llvm::Instruction::FMul ? Kind::multiply
                                                                           : Kind::divide),
                   2);
  }
  const unsigned bits = type_at_end().bits;
  Value* const a = read_float(1, bits);
  Value* b = read_float(2, bits);
  if (operation == llvm::Instruction::FDiv && has("approx")) b = divisor_in_range(b);
  Value* result = builder_.CreateBinOp(operation, a, b);
  if (operation == llvm::Instruction::FMul && bits == 32 && has("ftz")) result = flushed_result(result, a, b, nullptr);
  write_float(0, result);
}

/// .approx multiplies by the reciprocal, which is zero for divisors above 2^126. PTX ISA, "div".
Lowering::Value* Lowering::divisor_in_range(Value* divisor) {
  Value* const magnitude = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, divisor);
  Value* const large = builder_.CreateFCmpOGT(magnitude, llvm::ConstantFP::get(floats(32), 0x1p126));
  Value* const infinity = llvm::ConstantFP::getInfinity(floats(32));
  return builder_.CreateSelect(large, builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, infinity, divisor),
                               divisor);
}

/// Applies .ftz to `result`, the rounded a · b + addend. The result becomes zero if the exact value, rounded to 24 bits
/// without an exponent limit, lies below the lowest normal number; `result` itself may equal that number. The PTX ISA
/// leaves this case open; GPUs do the same when they round to nearest. Of the other rounding modes, only rounding away
/// from zero reaches the lowest normal number from below.
Lowering::Value* Lowering::flushed_result(Value* result, Value* a, Value* b, Value* addend) {
  const auto exact = [&](Value* value) { return builder_.CreateFPExt(value, floats(64)); };
  Value* sum = builder_.CreateFMul(exact(a), exact(b));
  if (addend != nullptr) sum = builder_.CreateFAdd(sum, exact(addend));
  Value* const magnitude = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, sum);
  const double last_flushed = rounds_otherwise() ? 0x1p-126 - 0x1p-150 : std::nextafter(0x1p-126 - 0x1p-151, 0);
  Value* const limit = llvm::ConstantFP::get(floats(64), last_flushed);
  Value* const zero =
      builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, llvm::ConstantFP::get(floats(32), 0), result);
  return builder_.CreateSelect(builder_.CreateFCmpOLE(magnitude, limit), zero, result);
}

void Lowering::fused_multiply_add() {
  if (is_half()) return half_arithmetic(static_cast<int>(helpers::HalfKind::fused), 3);
  if (rounds_otherwise()) return rounded(static_cast<int>(helpers::RoundedKind::fused), 3);
  const unsigned bits = type_at_end().bits;
  Value* const a = read_float(1, bits);
  Value* const b = read_float(2, bits);
  Value* const c = read_float(3, bits);
  Value* result = builder_.CreateIntrinsic(llvm::Intrinsic::fma, {floats(bits)}, {a, b, c});
  if (bits == 32 && has("ftz")) result = flushed_result(result, a, b, c);
  write_float(0, result);
}

bool Lowering::rounds_otherwise() const { return has("rz") || has("rm") || has("rp"); }

void Lowering::rounded(int kind, std::size_t operands) {
  const unsigned bits = type_at_end().bits;
  Site made = site(helpers::rounded);
  made.kind = kind;
  made.bytes = static_cast<int>(bits / 8);
  made.form = static_cast<int>(has("rz") ? Rounding::zero : has("rm") ? Rounding::down : Rounding::up);
  for (std::size_t i = 0; i < operands; ++i)
    give(static_cast<int>(i), builder_.CreateBitCast(read_float(i + 1, bits), integers(bits)));
  call(std::move(made));
  Value* result = builder_.CreateBitCast(take(0, bits), floats(bits));
  const auto which = static_cast<helpers::RoundedKind>(kind);
  const bool multiplies = which == helpers::RoundedKind::multiply || which == helpers::RoundedKind::fused;
  if (multiplies && bits == 32 && has("ftz"))
    result =
        flushed_result(result, read_float(1, bits), read_float(2, bits), operands == 3 ? read_float(3, bits) : nullptr);
  write_float(0, result);
}

/// Converts <32 x i16> of f16 or bf16 exactly. .ftz flushes subnormal f16.
Lowering::Value* Lowering::half_as_float(Value* half) {
  Value* const word = resize(half, 32, false);
  if (ptx::name(type_at_end().type).starts_with("bf"))
    return builder_.CreateBitCast(builder_.CreateShl(word, splat(16, 32)), floats(32));
  Value* const sign = builder_.CreateShl(builder_.CreateAnd(word, splat(0x8000, 32)), splat(16, 32));
  Value* const magnitude = builder_.CreateAnd(word, splat(0x7fff, 32));
  // The bits, read as a float, are 2^-112 of the value, also for subnormals. The largest exponent is a special case.
  Value* const small = builder_.CreateBitCast(builder_.CreateShl(magnitude, splat(13, 32)), floats(32));
  Value* const scaled = builder_.CreateFMul(small, llvm::ConstantFP::get(floats(32), 0x1p112));
  Value* bits = builder_.CreateBitCast(scaled, integers(32));
  Value* const is_special = builder_.CreateICmpUGE(magnitude, splat(0x7c00, 32));
  bits = builder_.CreateSelect(is_special, builder_.CreateOr(bits, splat(0x7f800000, 32)), bits);
  if (has("ftz")) {
    Value* const is_small = builder_.CreateICmpULT(magnitude, splat(0x0400, 32));
    bits = builder_.CreateSelect(is_small, splat(0, 32), bits);
  }
  return builder_.CreateBitCast(builder_.CreateOr(bits, sign), floats(32));
}

void Lowering::half_arithmetic(int kind, std::size_t operands) {
  const TypeFacts type = type_at_end();
  if (rounds_otherwise() || has("oob")) unsupported();
  Site made = site(helpers::half_arithmetic);
  made.saturate = has("sat");
  made.is_signed = has("relu");
  made.kind = kind;
  made.from = static_cast<int>(ptx::name(type.type).starts_with("bf") ? Format::bf16 : Format::f16);
  made.count = type.bits == 32 ? 2 : 1;
  made.flag = has("NaN");
  made.form = has("xorsign") ? 1 : 0;
  made.integral = has("ftz");
  for (std::size_t i = 0; i < operands; ++i) give(static_cast<int>(i), read(i + 1, type.bits));
  call_and_write(std::move(made), type.bits);
}

void Lowering::absolute() {
  const TypeFacts type = type_at_end();
  if (is_half()) return half_arithmetic(static_cast<int>(helpers::HalfKind::absolute), 1);
  if (type.is_float)
    return write_float(0, builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, read_float(1, type.bits)));
  write(0, builder_.CreateIntrinsic(llvm::Intrinsic::abs, {integers(type.bits)},
                                    {read(1, type.bits), builder_.getFalse()}));
}

void Lowering::negate() {
  const TypeFacts type = type_at_end();
  if (is_half()) return half_arithmetic(static_cast<int>(helpers::HalfKind::negate), 1);
  if (type.is_float) return write_float(0, builder_.CreateFNeg(read_float(1, type.bits)));
  write(0, builder_.CreateNeg(read(1, type.bits)));
}

/// A number wins over NaN unless .NaN is given, and -0 is smaller than +0. .abs compares magnitudes; .xorsign gives the
/// result the sign of the product.
Lowering::Value* Lowering::float_extreme(bool greater, Value* a, Value* b) {
  auto* const bits = integers(a->getType() == floats(32) ? 32 : 64);
  Value* const signs = builder_.CreateXor(builder_.CreateBitCast(a, bits), builder_.CreateBitCast(b, bits));
  if (has("abs")) {
    a = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
    b = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, b);
  }
  Value* const a_bits = builder_.CreateBitCast(a, bits);
  Value* const b_bits = builder_.CreateBitCast(b, bits);
  Value* const equal = builder_.CreateBitCast(
      greater ? builder_.CreateAnd(a_bits, b_bits) : builder_.CreateOr(a_bits, b_bits), a->getType());
  Value* const a_wins = greater ? builder_.CreateFCmpOGT(a, b) : builder_.CreateFCmpOLT(a, b);
  Value* const b_is_nan = builder_.CreateFCmpUNO(b, b);
  Value* result = builder_.CreateSelect(builder_.CreateOr(a_wins, b_is_nan), a, b);
  result = builder_.CreateSelect(builder_.CreateFCmpOEQ(a, b), equal, result);
  if (has("xorsign")) {
    result = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, result,
                                            builder_.CreateBitCast(signs, result->getType()));
  }
  if (has("NaN")) {
    Value* const nan = builder_.CreateBitCast(
        llvm::ConstantInt::get(bits, a->getType() == floats(32) ? kNan32 : 0x7fffffffffffffff), a->getType());
    result = builder_.CreateSelect(builder_.CreateFCmpUNO(a, b), nan, result);
  }
  if (a->getType() == floats(64)) return result;
  result = canonical(result);
  return has("ftz") ? flushed(result) : result;
}

/// The approximate forms are computed as exactly as the rounded forms.
void Lowering::reciprocal() {
  if (rounds_otherwise()) return rounded(static_cast<int>(helpers::RoundedKind::reciprocal), 1);
  const unsigned bits = type_at_end().bits;
  if (bits == 64 && has("approx")) return special_function();
  write_float(0, builder_.CreateFDiv(llvm::ConstantFP::get(floats(bits), 1.0), read_float(1, bits)));
}

void Lowering::square_root() {
  if (rounds_otherwise()) return rounded(static_cast<int>(helpers::RoundedKind::root), 1);
  const unsigned bits = type_at_end().bits;
  write_float(0, builder_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, read_float(1, bits)));
}

void Lowering::special_function() {
  static const auto& kinds =
      never_destroyed(std::map<std::string_view, helpers::FunctionKind>{{"ex2", helpers::FunctionKind::ex2},
                                                                        {"lg2", helpers::FunctionKind::lg2},
                                                                        {"sin", helpers::FunctionKind::sine},
                                                                        {"cos", helpers::FunctionKind::cosine},
                                                                        {"tanh", helpers::FunctionKind::tanh},
                                                                        {"rsqrt", helpers::FunctionKind::rsqrt},
                                                                        {"rcp", helpers::FunctionKind::rcp}});
  const TypeFacts type = type_at_end();
  const std::string_view name = ptx::name(type.type);
  Site made = site(helpers::function);
  made.kind = static_cast<int>(kinds.at(now_->root));
  made.count = name.ends_with("x2") ? 2 : 1;
  made.flag = has("ftz");
  Format format{};
  if (!find_format(made.count == 2 ? name.substr(0, name.size() - 2) : name, format)) unsupported();
  made.from = static_cast<int>(format);
  give(0, read(1, type.bits));
  call_and_write(std::move(made), type.bits);
}

/// copysign a, b: b with the sign of a.
void Lowering::copy_sign() {
  const unsigned bits = type_at_end().bits;
  Value* const sign = llvm::ConstantInt::get(integers(bits), 1ULL << (bits - 1));
  Value* const magnitude = builder_.CreateAnd(read(2, bits), builder_.CreateNot(sign));
  write(0, builder_.CreateOr(magnitude, builder_.CreateAnd(read(1, bits), sign)));
}

}  // namespace cubit::runtime::cpu
