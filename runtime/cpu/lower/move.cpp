// Lowers moves, comparisons and conversions. PTX ISA, "Comparison and Selection Instructions", "mov", "cvt", "cvta".
#include <map>

#include "base/lifetime.hpp"
#include "runtime/cpu/arithmetic/numbers.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/lower/lowering.hpp"

namespace cubit::runtime::cpu {

/// Also packs `mov.b64 %rd, {%r1, %r2}` and unpacks the reverse.
void Lowering::move() {
  if (is_of_predicates()) return write(0, read_predicate(1));
  const unsigned bits = type_at_end().bits;
  if (const auto* parts = std::get_if<ptx::VectorOperand>(&operand(1))) {
    const unsigned part = bits / static_cast<unsigned>(parts->elements.size());
    Value* whole = splat(0, bits);
    for (std::size_t i = 0; i < parts->elements.size(); ++i) {
      Value* const value = resize(read_scalar(parts->elements[i], part), bits, false);
      whole = builder_.CreateOr(whole, builder_.CreateShl(value, splat(part * i, bits)));
    }
    return write(0, whole);
  }
  Value* const value = read(1, bits);
  const auto* const parts = std::get_if<ptx::VectorOperand>(&operand(0));
  if (parts == nullptr) return write(0, value);
  const unsigned part = bits / static_cast<unsigned>(parts->elements.size());
  for (std::size_t i = 0; i < parts->elements.size(); ++i) {
    write_scalar(parts->elements[i],
                 builder_.CreateTrunc(builder_.CreateLShr(value, splat(part * i, bits)), integers(part)));
  }
}

void Lowering::select() {
  const unsigned bits = type_at_end().bits;
  write(0, builder_.CreateSelect(read_predicate(3), read(1, bits), read(2, bits)));
}

Lowering::Value* Lowering::comparison(std::string_view name, const TypeFacts& type, std::size_t first, unsigned shift) {
  using Predicate = llvm::CmpInst::Predicate;
  struct Row {
    Predicate floating, is_signed, is_unsigned;
  };
  using P = llvm::CmpInst;
  static const auto& rows_by_name =
      never_destroyed(std::map<std::string_view, Row>{{"eq", {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ}},
                                                      {"ne", {P::FCMP_ONE, P::ICMP_NE, P::ICMP_NE}},
                                                      {"lt", {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}},
                                                      {"le", {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE}},
                                                      {"gt", {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}},
                                                      {"ge", {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE}},
                                                      {"lo", {P::FCMP_FALSE, P::ICMP_ULT, P::ICMP_ULT}},
                                                      {"ls", {P::FCMP_FALSE, P::ICMP_ULE, P::ICMP_ULE}},
                                                      {"hi", {P::FCMP_FALSE, P::ICMP_UGT, P::ICMP_UGT}},
                                                      {"hs", {P::FCMP_FALSE, P::ICMP_UGE, P::ICMP_UGE}},
                                                      {"equ", {P::FCMP_UEQ, P::ICMP_EQ, P::ICMP_EQ}},
                                                      {"neu", {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE}},
                                                      {"ltu", {P::FCMP_ULT, P::ICMP_ULT, P::ICMP_ULT}},
                                                      {"leu", {P::FCMP_ULE, P::ICMP_ULE, P::ICMP_ULE}},
                                                      {"gtu", {P::FCMP_UGT, P::ICMP_UGT, P::ICMP_UGT}},
                                                      {"geu", {P::FCMP_UGE, P::ICMP_UGE, P::ICMP_UGE}},
                                                      {"num", {P::FCMP_ORD, P::ICMP_EQ, P::ICMP_EQ}},
                                                      {"nan", {P::FCMP_UNO, P::ICMP_EQ, P::ICMP_EQ}}});
  const auto row = rows_by_name.find(name);
  if (row == rows_by_name.end()) unsupported("the CPU device does not execute this comparison");
  if (is_half()) {
    const auto half = [&](std::size_t index) {
      Value* const whole = read(index, type.bits);
      return half_as_float(resize(builder_.CreateLShr(whole, splat(shift, type.bits)), 16, false));
    };
    return builder_.CreateFCmp(row->second.floating, half(first), half(first + 1));
  }
  if (type.is_float)
    return builder_.CreateFCmp(row->second.floating, read_float(first, type.bits), read_float(first + 1, type.bits));
  const Predicate predicate = type.is_signed ? row->second.is_signed : row->second.is_unsigned;
  return builder_.CreateICmp(predicate, read(first, type.bits), read(first + 1, type.bits));
}

/// setp.cmp p|q, a, b and setp.cmp.op p|q, a, b, c: p = cmp op c, q = !cmp op c. For packed halves, p is the result of
/// the low halves and q of the high halves.
void Lowering::compare() {
  const TypeFacts type = type_at_end();
  const auto combined = [&](Value* value) -> Value* {
    if (now_->operands.size() < 4) return value;
    if (has("and")) return builder_.CreateAnd(value, read_predicate(3));
    if (has("or")) return builder_.CreateOr(value, read_predicate(3));
    return builder_.CreateXor(value, read_predicate(3));
  };
  const bool is_packed = is_half() && type.bits == 32;
  Value* const holds = comparison(now_->modifiers.front(), type, 1, 0);
  Value* const first = combined(holds);
  const auto* const pair = std::get_if<ptx::PairOperand>(&operand(0));
  if (pair == nullptr) return write(0, first);
  Value* const other = is_packed ? comparison(now_->modifiers.front(), type, 1, 16) : builder_.CreateNot(holds);
  Value* const second = combined(other);
  write_scalar(pair->first, first);
  write_scalar(pair->second, second);
}

namespace {

/// How a conversion's values are packed in registers.
enum Packing { kScalar, kTwoSources, kPackedSource };

Rounding rounding_of(const ptx::Instruction& instruction) {
  static const auto& roundings = never_destroyed(std::map<std::string_view, Rounding>{{"rn", Rounding::nearest},
                                                                                      {"rz", Rounding::zero},
                                                                                      {"rm", Rounding::down},
                                                                                      {"rp", Rounding::up},
                                                                                      {"rna", Rounding::away},
                                                                                      {"rni", Rounding::nearest},
                                                                                      {"rzi", Rounding::zero},
                                                                                      {"rmi", Rounding::down},
                                                                                      {"rpi", Rounding::up}});
  for (const std::string_view modifier : instruction.modifiers) {
    if (const auto row = roundings.find(modifier); row != roundings.end()) return row->second;
  }
  return Rounding::nearest;
}

bool remove_pair(std::string_view& type) {
  const bool is_pair = type.ends_with("x2");
  if (is_pair) type.remove_suffix(2);
  return is_pair;
}

}  // namespace

/// Conversions between integers are lowered here; conversions with a float run in C++.
void Lowering::convert() {
  const std::size_t count = now_->modifiers.size();
  if (count < 2) unsupported();
  std::string_view to = now_->modifiers[count - 2];
  std::string_view from = now_->modifiers[count - 1];
  const bool to_pair = remove_pair(to);
  const bool from_pair = remove_pair(from);
  Format source{};
  Format target{};
  if (!find_format(to, target) || !find_format(from, source) || has("rs") || from_pair > to_pair) unsupported();
  const auto source_bits = static_cast<unsigned>(facts(source).bits);
  const auto target_bits = static_cast<unsigned>(facts(target).bits);
  if (is_integer(source) && is_integer(target) && !has("sat")) {
    Value* const value = resize(read(1, source_bits), target_bits, facts(source).is_signed);
    return write(0, value, facts(target).is_signed);
  }
  Site made = site(helpers::convert);
  made.from = static_cast<int>(source);
  made.to = static_cast<int>(target);
  made.kind = static_cast<int>(rounding_of(*now_));
  made.count = !to_pair ? kScalar : from_pair ? kPackedSource : kTwoSources;
  made.flag = has("ftz");
  made.saturate = has("sat");
  made.form = has("satfinite") ? 1 : 0;
  made.is_signed = has("relu");
  made.integral = has("rni") || has("rzi") || has("rmi") || has("rpi");
  give(0, read(1, from_pair ? 2 * source_bits : source_bits));
  if (made.count == kTwoSources) give(1, read(2, source_bits));
  call(std::move(made));
  write(0, take(0, to_pair ? 2 * target_bits : target_bits), is_integer(target) && facts(target).is_signed);
}

/// cvta.space converts into the generic window; cvta.to.space converts out of it. Global addresses are generic
/// addresses.
void Lowering::convert_address() {
  const unsigned bits = type_at_end().bits;
  Value* const value = read(1, bits);
  std::uint64_t window = 0;
  if (has("shared") || has("shared::cta") || has("shared::cluster")) window = kSharedWindow;
  if (has("local")) window = kLocalWindow;
  if (has("param")) window = kParameterWindow;
  if (window == 0) return write(0, value);
  if (bits != 64) unsupported("addresses have 64 bits");
  write(0, has("to") ? builder_.CreateSub(value, splat(window, 64)) : builder_.CreateAdd(value, splat(window, 64)));
}

void Lowering::is_in_space() {
  Value* const address = read(1, 64);
  Value* const value = builder_.CreateAnd(address, splat(kWindowMask, 64));
  const auto inside = [&](std::uint64_t window) { return builder_.CreateICmpEQ(value, splat(window, 64)); };
  if (has("shared::cluster")) return write(0, inside(kSharedWindow));
  if (has("shared") || has("shared::cta")) {
    Value* const part =
        builder_.CreateLShr(builder_.CreateXor(address, splat(kSharedWindow, 64)), splat(kRankShift, 64));
    Value* const own = builder_.CreateAdd(uniform(Uniform::cluster_ctarank, 64), splat(1, 64));
    Value* const here = builder_.CreateOr(builder_.CreateICmpEQ(part, splat(0, 64)), builder_.CreateICmpEQ(part, own));
    return write(0, builder_.CreateAnd(inside(kSharedWindow), here));
  }
  if (has("local")) return write(0, inside(kLocalWindow));
  if (has("param")) return write(0, inside(kParameterWindow));
  if (!has("global")) unsupported();
  Value* const any =
      builder_.CreateOr(inside(kSharedWindow), builder_.CreateOr(inside(kLocalWindow), inside(kParameterWindow)));
  write(0, builder_.CreateNot(any));
}

}  // namespace cubit::runtime::cpu
