// Lowers warp-wide instructions and control flow, and holds the table of all instructions. PTX ISA, "Control Flow
// Instructions", "Parallel Synchronization and Communication Instructions".
#include <map>

#include "base/lifetime.hpp"
#include "runtime/cpu/arithmetic/numbers.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/lower/lowering.hpp"

namespace cubit::runtime::cpu {

void Lowering::shuffle() {
  using Kind = helpers::ShuffleKind;
  if (!has("sync")) unsupported("shfl without .sync is not executed");
  Site made = site(helpers::shuffle);
  made.kind = static_cast<int>(has("up")     ? Kind::up
                               : has("down") ? Kind::down
                               : has("bfly") ? Kind::butterfly
                                             : Kind::index);
  for (int i = 0; i < 4; ++i) give(i, read(static_cast<std::size_t>(i) + 1, 32));
  call(std::move(made));
  const auto* const pair = std::get_if<ptx::PairOperand>(&operand(0));
  if (pair == nullptr) return write(0, take(0, 32));
  write_scalar(pair->first, take(0, 32));
  write_scalar(pair->second, take_predicate(1));
}

void Lowering::vote() {
  using Kind = helpers::VoteKind;
  if (!has("sync")) unsupported("vote without .sync is not executed");
  Site made = site(helpers::vote);
  made.kind = static_cast<int>(has("ballot") ? Kind::ballot
                               : has("all")  ? Kind::all
                               : has("any")  ? Kind::any
                                             : Kind::uniform);
  give(0, read_predicate(1));
  give(1, read(2, 32));
  call(std::move(made));
  has("ballot") ? write(0, take(0, 32)) : write(0, take_predicate(0));
}

void Lowering::match() {
  const unsigned bits = type_at_end().bits;
  Site made = site(helpers::match);
  made.kind = static_cast<int>(has("all") ? helpers::MatchKind::all : helpers::MatchKind::any);
  made.bytes = static_cast<int>(bits / 8);
  give(0, read(1, bits));
  give(1, read(2, 32));
  call(std::move(made));
  const auto* const pair = std::get_if<ptx::PairOperand>(&operand(0));
  if (pair == nullptr) return write(0, take(0, 32));
  write_scalar(pair->first, take(0, 32));
  write_scalar(pair->second, take_predicate(1));
}

void Lowering::reduce() {
  using Kind = helpers::AtomicKind;
  static const auto& kinds = never_destroyed(std::map<std::string_view, Kind>{{"add", Kind::add},
                                                                              {"min", Kind::min},
                                                                              {"max", Kind::max},
                                                                              {"and", Kind::bit_and},
                                                                              {"or", Kind::bit_or},
                                                                              {"xor", Kind::bit_xor}});
  const TypeFacts type = type_at_end();
  if (type.is_float) unsupported("redux of floats is not executed");
  Site made = site(helpers::reduce);
  bool known = false;
  for (const std::string_view modifier : now_->modifiers) {
    const auto kind = kinds.find(modifier);
    if (kind == kinds.end()) continue;
    made.kind = static_cast<int>(kind->second);
    known = true;
  }
  if (!known) unsupported();
  made.is_signed = type.is_signed;
  give(0, read(1, 32));
  give(1, read(2, 32));
  call_and_write(std::move(made), 32);
}

void Lowering::active_mask() { write(0, builder_.CreateVectorSplat(kLanes, active())); }

void Lowering::elect() {
  Site made = site(helpers::elect);
  give(0, read(1, 32));
  call(std::move(made));
  const auto& pair = std::get<ptx::PairOperand>(operand(0));
  write_scalar(pair.first, take(0, 32));
  write_scalar(pair.second, take_predicate(1));
}

void Lowering::branch() {
  if (guard_ != nullptr) returned_ = to_mask(guard_);
}

void Lowering::leave() { returned_ = active(); }

void Lowering::fence() { call(site(helpers::fence)); }

void Lowering::trap() { call(site(helpers::trap)); }

/// Arithmetic and bit instructions.
Lowering::Handlers Lowering::arithmetic_handlers() {
  using L = Lowering;
  return {
      {"add", &L::add},
      {"sub", &L::subtract},
      {"addc", &L::add},
      {"subc", &L::subtract},
      {"mul", &L::multiply},
      {"mad", &L::multiply_add},
      {"madc", &L::multiply_add},
      {"fma", &L::fused_multiply_add},
      {"div", &L::divide},
      {"rem", &L::remainder},
      {"abs", &L::absolute},
      {"neg", &L::negate},
      {"min", &L::minimum},
      {"max", &L::maximum},
      {"and", &L::bit_and},
      {"or", &L::bit_or},
      {"xor", &L::bit_xor},
      {"not", &L::bit_not},
      {"cnot", &L::logical_not},
      {"shl", &L::shift_left},
      {"shr", &L::shift_right},
      {"shf", &L::funnel_shift},
      {"popc", &L::population},
      {"clz", &L::leading_zeros},
      {"brev", &L::reverse_bits},
      {"bfind", &L::find_leading},
      {"bfe", &L::extract_bits},
      {"bfi", &L::insert_bits},
      {"lop3", &L::logic3},
      {"prmt", &L::permute},
      {"dp4a", &L::dot4},
      {"dp2a", &L::dot2},
      {"sad", &L::sum_of_differences},
      {"rcp", &L::reciprocal},
      {"sqrt", &L::square_root},
      {"rsqrt", &L::special_function},
      {"ex2", &L::special_function},
      {"lg2", &L::special_function},
      {"sin", &L::special_function},
      {"cos", &L::special_function},
      {"tanh", &L::special_function},
      {"copysign", &L::copy_sign},
  };
}

/// Moves, conversions, memory accesses and tensor-core instructions.
Lowering::Handlers Lowering::data_handlers() {
  using L = Lowering;
  return {
      {"mov", &L::move},
      {"selp", &L::select},
      {"setp", &L::compare},
      {"cvt", &L::convert},
      {"cvta", &L::convert_address},
      {"isspacep", &L::is_in_space},
      {"ld", &L::load},
      {"ldu", &L::load},
      {"st", &L::store},
      {"atom", &L::atomic},
      {"red", &L::atomic},
      {"cp", &L::copy_async},
      {"ldmatrix", &L::matrix},
      {"stmatrix", &L::matrix},
      {"movmatrix", &L::move_matrix},
      {"mma", &L::multiply_matrices},
      {"wgmma", &L::warpgroup},
  };
}

/// Exchange between lanes, barriers, control flow, and hints without an effect here.
Lowering::Handlers Lowering::control_handlers() {
  using L = Lowering;
  return {
      {"shfl", &L::shuffle},
      {"vote", &L::vote},
      {"match", &L::match},
      {"redux", &L::reduce},
      {"activemask", &L::active_mask},
      {"elect", &L::elect},
      {"bar", &L::barrier},
      {"barrier", &L::barrier},
      {"mbarrier", &L::mbarrier},
      {"mapa", &L::map_address},
      {"getctarank", &L::rank_of_address},
      {"bra", &L::branch},
      {"ret", &L::leave},
      {"exit", &L::leave},
      {"trap", &L::trap},
      {"membar", &L::fence},
      {"fence", &L::fence},
      {"nanosleep", &L::nothing},
      {"prefetch", &L::prefetch},
      {"prefetchu", &L::nothing},
      {"discard", &L::nothing},
      {"applypriority", &L::nothing},
      {"pmevent", &L::nothing},
      {"griddepcontrol", &L::nothing},
      {"setmaxnreg", &L::nothing},
      {"createpolicy", &L::cache_policy},
  };
}

const Lowering::Handlers& Lowering::handlers() {
  static const auto& table = never_destroyed([] {
    Handlers all = arithmetic_handlers();
    all.merge(data_handlers());
    all.merge(control_handlers());
    return all;
  }());
  return table;
}

}  // namespace cubit::runtime::cpu
