// Lowers asynchronous bulk copies and mbarrier instructions. PTX ISA, "mbarrier", "cp.async.mbarrier.arrive",
// "cp.async.bulk", "cp.async.bulk.tensor", "prefetch", "cp.reduce.async.bulk", "st.async", "red.async".
#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/lower/lowering.hpp"

namespace cubit::runtime::cpu {
namespace {

/// Returns 3 for ".3d", and 0 if the instruction names no number of dimensions.
int dimensions_of(const ptx::Instruction& instruction) {
  for (const std::string_view modifier : instruction.modifiers) {
    if (modifier.size() == 2 && modifier[1] == 'd' && modifier[0] >= '1' && modifier[0] <= '5')
      return modifier[0] - '0';
  }
  return 0;
}

}  // namespace

Lowering::Value* Lowering::plain_address(std::size_t index) {
  Site unused;
  Value* const base = address(operand(index), unused);
  return builder_.CreateAdd(base, splat(static_cast<std::uint64_t>(unused.offset), 64));
}

void Lowering::mbarrier() {
  if (has("test_wait") || has("try_wait")) return mbarrier_wait();
  if (has("pending_count")) {
    give(0, read(1, 64));
    return call_and_write(site(helpers::pending_count), 32);
  }
  if (!has("init") && !has("inval")) return mbarrier_change();
  Site made = site(helpers::init_mbarrier);
  made.flag = has("inval");
  memory_kind(made, 0);
  give(1, made.flag ? splat(0, 32) : read(1, 32));
  call(std::move(made));
}

/// arrive and arrive_drop have a result or `_`. expect_tx and complete_tx alone have no result.
void Lowering::mbarrier_change() {
  using Kind = helpers::MbarrierKind;
  Site made = site(helpers::change_mbarrier);
  const bool arrives = has("arrive") || has("arrive_drop");
  if (!arrives && !has("expect_tx") && !has("complete_tx")) unsupported();
  made.kind = static_cast<int>(has("arrive")        ? Kind::arrive
                               : has("arrive_drop") ? Kind::drop
                               : has("expect_tx")   ? Kind::expect
                                                    : Kind::complete);
  made.flag = has("noComplete");
  const std::size_t first = arrives && !std::holds_alternative<ptx::AddressOperand>(operand(0)) ? 1 : 0;
  memory_kind(made, first);
  Value* const last = now_->operands.size() > first + 1 ? read(first + 1, 32) : nullptr;
  const bool counts_bytes = has("expect_tx") || has("complete_tx");
  if (counts_bytes && last == nullptr) unsupported("the number of bytes is missing");
  give(1, last == nullptr || counts_bytes ? splat(1, 32) : last);
  give(2, counts_bytes ? last : splat(0, 32));
  call(std::move(made));
  if (first == 1) write(0, take(0, 64));
}

void Lowering::mbarrier_wait() {
  Site made = site(helpers::wait_for_phase);
  made.flag = has("try_wait");
  memory_kind(made, 1);
  give(1, read(2, 64));
  call(std::move(made));
  write(0, take_predicate(0));
}

void Lowering::arrive_after_copies() {
  Site made = site(helpers::arrive_after_copies);
  made.flag = has("noinc");
  memory_kind(made, 0);
  call(std::move(made));
}

void Lowering::copy_bulk() {
  using Form = helpers::BulkForm;
  if (has("cp_mask") || has("ignore_oob")) unsupported();
  if (has("tensor")) return copy_tensor();
  if (has("prefetch")) return prefetch_bulk();
  if (has("commit_group")) return call(site(helpers::commit_bulk));
  if (has("wait_group")) {
    Site made = site(helpers::wait_bulk);
    made.kind = static_cast<int>(std::get<ptx::IntegerOperand>(operand(0)).bits);
    made.flag = has("read");
    return call(std::move(made));
  }
  const bool tells = has("mbarrier::complete_tx::bytes");
  if (!tells && !has("bulk_group")) unsupported();
  Site made = site(helpers::copy_bulk);
  made.flag = has("reduce");
  made.cluster = has("shared::cluster");
  made.form = static_cast<int>(!tells                      ? Form::to_global
                               : has("multicast::cluster") ? Form::multicast
                               : has("global")             ? Form::from_global
                                                           : Form::between_blocks);
  if (made.flag) reduction_kind(made);
  give(0, plain_address(0));
  give(1, plain_address(1));
  give(2, read(2, 32));
  if (tells) give(3, plain_address(3));
  if (has("multicast::cluster")) give(4, read(4, 16));
  call(std::move(made));
}

void Lowering::prefetch_bulk() {
  give(0, plain_address(0));
  give(1, read(1, 32));
  call(site(helpers::prefetch_bulk));
}

/// Unknown modifiers are refused, because newer modifiers change what is copied.
void Lowering::copy_tensor() {
  using Form = helpers::BulkForm;
  static constexpr std::string_view kKnown[] = {"async",       "bulk",
                                                "prefetch",    "tensor",
                                                "1d",          "2d",
                                                "3d",          "4d",
                                                "5d",          "shared::cluster",
                                                "shared::cta", "global",
                                                "tile",        "mbarrier::complete_tx::bytes",
                                                "bulk_group",  "multicast::cluster",
                                                "L2",          "L2::cache_hint"};
  for (const std::string_view modifier : now_->modifiers) {
    if (std::find(std::begin(kKnown), std::end(kKnown), modifier) == std::end(kKnown))
      unsupported(fmt::format("the CPU device copies no tensor with .{}", modifier));
  }
  const bool tells = has("mbarrier::complete_tx::bytes");
  if (!tells && !has("bulk_group") && !has("prefetch")) unsupported();
  Site made = site(has("prefetch") ? helpers::prefetch_tensor : helpers::copy_tensor);
  made.cluster = has("shared::cluster");
  made.form = static_cast<int>(!tells                      ? Form::to_global
                               : has("multicast::cluster") ? Form::multicast
                                                           : Form::from_global);
  tensor_operand(tells ? 1 : 0, made);
  if (!has("prefetch")) give(0, plain_address(tells ? 0 : 1));
  if (tells) give(3, plain_address(2));
  if (has("multicast::cluster")) give(4, read(3, 16));
  call(std::move(made));
}

/// Operand `[map, {x, y}]`.
void Lowering::tensor_operand(std::size_t index, Site& made) {
  const auto* const place = std::get_if<ptx::AddressOperand>(&operand(index));
  made.count = dimensions_of(*now_);
  if (place == nullptr || place->coordinates.size() != static_cast<std::size_t>(made.count))
    unsupported("a tensor map with one coordinate per dimension is missing");
  give(1, builder_.CreateAdd(base_address(*place), splat(static_cast<std::uint64_t>(place->offset), 64)));
  for (int i = 0; i < made.count; ++i)
    give(helpers::kFirstCoordinate + i, read_scalar(place->coordinates[static_cast<std::size_t>(i)], 32));
}

/// Only a prefetch of a tensor map can fail.
void Lowering::prefetch() {
  if (!has("tensormap")) return;
  Site made = site(helpers::prefetch_map);
  memory_kind(made, 0);
  call(std::move(made));
}

/// st.async and red.async: [target], value, [mbarrier].
void Lowering::send_value() {
  if (!has("mbarrier::complete_tx::bytes")) unsupported();
  const TypeFacts type = type_at_end();
  Site made = site(helpers::send_value);
  made.flag = now_->root == "red";
  made.cluster = true;
  made.bytes = static_cast<int>(type.bits / 8);
  if (made.flag) reduction_kind(made);
  give(0, plain_address(0));
  give(1, plain_address(2));
  if (const auto* vector = std::get_if<ptx::VectorOperand>(&operand(1))) {
    made.count = static_cast<int>(vector->elements.size());
    for (int i = 0; i < made.count; ++i)
      give(i + 2, read_scalar(vector->elements[static_cast<std::size_t>(i)], type.bits));
  } else {
    give(2, read(1, type.bits));
  }
  call(std::move(made));
}

}  // namespace cubit::runtime::cpu
