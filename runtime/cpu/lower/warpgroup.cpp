// Lowers wgmma. Each warp of the warpgroup computes its own 16 rows, eight columns at a time. helpers/warpgroup.cpp
// checks when results may be read. PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "codegen/fragments.hpp"
#include "runtime/cpu/arithmetic/numbers.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/lower/accumulators.hpp"
#include "runtime/cpu/lower/lowering.hpp"

namespace cubit::runtime::cpu {
namespace {

constexpr int kColumnsOfACall = 8;
constexpr int kMostColumns = 256;
constexpr std::uint64_t kMostGroups = 0xffff;
constexpr std::size_t kRegistersOfA = 4;
constexpr std::size_t kAccumulatorsOfACall = 4;

/// Properties of a wgmma.mma_async that follow from its types.
struct WarpgroupTypes {
  std::string_view result;
  std::string_view factor;  ///< type of A and B
  Format format;
  std::string_view depth;     ///< "k16"
  std::string_view fragment;  ///< of A from registers
  bool has_signs;             ///< imm-scale-a and imm-scale-b are operands
  bool has_transposition;     ///< imm-trans-a and imm-trans-b are operands
};

constexpr WarpgroupTypes kTypes[] = {
    {"f32", "f16", Format::f16, "k16", "wgmma.m64k16 A, 16-bit", true, true},
    {"f32", "bf16", Format::bf16, "k16", "wgmma.m64k16 A, 16-bit", true, true},
    {"f32", "e4m3", Format::e4m3, "k32", "wgmma.m64k32 A, 8-bit", true, false},
    {"s32", "s8", Format::s8, "k32", "wgmma.m64k32 A, 8-bit", false, false},
};

/// Returns nullptr for types that are not executed.
const WarpgroupTypes* types_of(const ptx::Instruction& instruction) {
  std::vector<std::string_view> modifiers;
  std::ranges::copy_if(instruction.modifiers, std::back_inserter(modifiers),
                       [](std::string_view modifier) { return modifier != "satfinite"; });
  const std::size_t count = modifiers.size();
  if (count < 3 || modifiers[count - 2] != modifiers[count - 1]) return nullptr;
  const auto* const found = std::ranges::find_if(kTypes, [&](const WarpgroupTypes& row) {
    return row.result == modifiers[count - 3] && row.factor == modifiers[count - 1];
  });
  if (found == std::end(kTypes) || (instruction.has("satfinite") && !is_integer(found->format))) return nullptr;
  return found;
}

/// Products of bytes have no odd multiples of 8 columns above 24.
bool are_legal_columns(const WarpgroupTypes& types, int columns) {
  constexpr int kLastOddMultiple = 24;
  if (columns < kColumnsOfACall || columns > kMostColumns || columns % kColumnsOfACall != 0) return false;
  return !is_integer(types.format) || columns <= kLastOddMultiple || columns % (2 * kColumnsOfACall) == 0;
}

/// Returns N of "m64nNk16" or "m64nNk32", or 0 for a shape that the types do not have.
int columns_of(const ptx::Instruction& instruction, const WarpgroupTypes& types) {
  constexpr std::string_view kFirst = "m64n";
  for (const std::string_view modifier : instruction.modifiers) {
    if (!modifier.starts_with(kFirst) || !modifier.ends_with(types.depth)) continue;
    int columns = 0;
    const char* const end = modifier.data() + modifier.size() - types.depth.size();
    const auto [last, error] = std::from_chars(modifier.data() + kFirst.size(), end, columns);
    return error == std::errc() && last == end && are_legal_columns(types, columns) ? columns : 0;
  }
  return 0;
}

void append_places(std::vector<std::uint16_t>& table, const codegen::FragmentMap& map) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int value = 0; value < map.value_count; ++value) {
      const codegen::Element at = map.at(lane, value);
      table.push_back(static_cast<std::uint16_t>(at.row * map.columns + at.column));
    }
  }
}

}  // namespace

void Lowering::warpgroup() {
  if (module_.target != "sm_90a")
    unsupported(fmt::format("wgmma is an instruction of sm_90a, and this PTX is of {}", module_.target));
  if (!has("sync") || !has("aligned")) unsupported("wgmma is executed with .sync.aligned");
  if (has("mma_async")) return multiply_warpgroup();
  if (has("fence")) return call(site(helpers::fence_warpgroup));
  if (has("commit_group")) return call(site(helpers::commit_warpgroup));
  if (!has("wait_group")) unsupported();
  const auto* const groups = std::get_if<ptx::IntegerOperand>(&operand(0));
  if (groups == nullptr || groups->bits > kMostGroups)
    unsupported("the operand is the number of groups that may be unfinished, 0 or more");
  Site made = site(helpers::wait_warpgroup);
  made.kind = static_cast<int>(groups->bits);
  call(std::move(made));
}

void Lowering::give_registers(std::size_t operand_index, int first, std::size_t count) {
  const auto& elements = std::get<ptx::VectorOperand>(operand(operand_index)).elements;
  for (std::size_t i = 0; i < count; ++i) give(first + static_cast<int>(i), read_scalar(elements[i], 32));
}

bool Lowering::immediate_sign(std::size_t operand_index) const {
  const auto* const scale = std::get_if<ptx::IntegerOperand>(&operand(operand_index));
  if (scale == nullptr || (scale->bits != 1 && scale->bits != ~std::uint64_t{0}))
    unsupported("imm-scale-a and imm-scale-b are 1 or -1");
  return scale->bits != 1;
}

bool Lowering::immediate_bit(std::size_t operand_index) const {
  const auto* const bit = std::get_if<ptx::IntegerOperand>(&operand(operand_index));
  if (bit == nullptr || bit->bits > 1) unsupported("imm-trans-a and imm-trans-b are 0 or 1");
  return bit->bits == 1;
}

/// Operands: d, a, b-desc, scale-d[, imm-scale-a, imm-scale-b[, [imm-trans-a, ]imm-trans-b]]. Integers have no signs,
/// and bytes have no transposition. Transposition applies to matrices given by descriptor.
int Lowering::warpgroup_options(bool is_described, bool has_signs, bool has_transposition) const {
  using namespace helpers;
  const std::size_t expected = 4 + (has_signs ? 2 : 0) + (has_transposition ? (is_described ? 2 : 1) : 0);
  if (now_->operands.size() != expected)
    unsupported(
        fmt::format("with A from {} it has {} operands", is_described ? "a descriptor" : "registers", expected));
  int options = is_described ? kDescriptorA : 0;
  if (has_signs && immediate_sign(4)) options |= kNegateA;
  if (has_signs && immediate_sign(5)) options |= kNegateB;
  if (has_transposition && is_described && immediate_bit(6)) options |= kTransposeA;
  if (has_transposition && immediate_bit(is_described ? 7 : 6)) options |= kTransposeB;
  return options;
}

void Lowering::multiply_warpgroup() {
  using namespace helpers;
  const WarpgroupTypes* const types = has("sp") ? nullptr : types_of(*now_);
  if (types == nullptr)
    unsupported(
        "the CPU device executes wgmma.mma_async of .f32.f16.f16, .f32.bf16.bf16, .f32.e4m3.e4m3 and .s32.s8.s8, not "
        "sparse, and .satfinite of .s32");
  const int columns = columns_of(*now_, *types);
  if (columns == 0)
    unsupported(fmt::format(
        "wgmma.mma_async of {} is m64nN{}, where N is {}", types->factor, types->depth,
        is_integer(types->format) ? "8, 24 or a multiple of 16 from 16 to 256" : "a multiple of 8 from 8 to 256"));
  const auto* const sums = std::get_if<ptx::VectorOperand>(&operand(0));
  if (sums == nullptr || static_cast<int>(sums->elements.size()) != columns / 2)
    unsupported(fmt::format("the accumulators do not match: m64n{}{} has {} accumulator registers", columns,
                            types->depth, columns / 2));
  const auto* const registers_of_a = std::get_if<ptx::VectorOperand>(&operand(1));
  const bool is_described = registers_of_a == nullptr;
  if (!is_described && registers_of_a->elements.size() != kRegistersOfA)
    unsupported("A is a descriptor or four registers of 32 bits");

  Site made = site(helpers::multiply_warpgroup);
  made.form = warpgroup_options(is_described, types->has_signs, types->has_transposition);
  made.from = static_cast<int>(types->format);
  made.saturate = has("satfinite");
  made.count = columns;
  append_places(made.table, codegen::find_fragment(types->fragment));
  append_places(made.table, codegen::find_fragment("wgmma.m64n8 D, 32-bit"));
  add_warpgroup_calls(std::move(made), is_described);
}

/// `made`: the instruction's site, for any of its columns.
void Lowering::add_warpgroup_calls(Site made, bool is_described) {
  using namespace helpers;
  const auto& sums = std::get<ptx::VectorOperand>(operand(0)).elements;
  // Helpers do not change their sources, so A, B and the predicate are stored once for all calls.
  is_described ? give(0, read(1, 64)) : give_registers(1, 0, kRegistersOfA);
  give(kDescriptorOfB, read(2, 64));
  give(kScaleD, read_predicate(3));
  Site started = made;
  started.helper = start_warpgroup;
  started.table.clear();
  started.result_bytes = accumulator_count_;
  number_accumulators(started, accesses_of(*now_).writes);
  call(std::move(started));
  for (int first = 0; first < made.count; first += kColumnsOfACall) {
    const auto offset = static_cast<std::size_t>(first / kColumnsOfACall) * kAccumulatorsOfACall;
    for (std::size_t i = 0; i < kAccumulatorsOfACall; ++i)
      give(kFirstAccumulator + static_cast<int>(i), read_scalar(sums[offset + i], 32));
    made.kind = first;
    call(made);
    for (std::size_t i = 0; i < kAccumulatorsOfACall; ++i)
      write_scalar(sums[offset + i], take(static_cast<int>(i), 32));
  }
}

// ---- accumulators of unfinished wgmma ----

void Lowering::number_accumulators(Site& made, const std::vector<int>& registers) const {
  if (accumulator_count_ > std::numeric_limits<std::uint16_t>::max())
    unsupported("the kernel has more accumulator registers of wgmma than the CPU device can tell apart");
  for (const int index : registers) {
    const int number = accumulators_[static_cast<std::size_t>(index)];
    if (number != ptx::kNone) made.table.push_back(static_cast<std::uint16_t>(number));
  }
}

void Lowering::track_accumulators() {
  const Accesses accesses = accesses_of(*now_);
  Site made = site(helpers::use_accumulators);
  number_accumulators(made, accesses.reads);
  made.count = static_cast<int>(made.table.size());
  number_accumulators(made, accesses.writes);
  if (made.table.empty()) return;
  made.flag = is_copy(*now_) && made.count == 1;
  made.result_bytes = accumulator_count_;
  call(std::move(made));
}

}  // namespace cubit::runtime::cpu
