// Lowers barriers of warps, blocks and clusters, and addresses in other blocks' shared memory. PTX ISA, "bar, barrier",
// "barrier.cluster", "mapa", "getctarank".
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/lower/lowering.hpp"

namespace cubit::runtime::cpu {

/// An instruction that may wait ends its segment (control.cpp). The helper decides whether the warp waits.
void Lowering::barrier() {
  using Kind = helpers::BarrierKind;
  if (has("warp")) {
    Site made = site(helpers::warp_barrier);
    give(0, read(0, 32));
    return call(std::move(made));
  }
  if (has("cluster")) return cluster_barrier();
  Site made = site(helpers::barrier);
  const bool is_vote = has("red");
  made.kind = static_cast<int>(has("arrive") ? Kind::arrive
                               : !is_vote    ? Kind::sync
                               : has("popc") ? Kind::count
                               : has("and")  ? Kind::all
                                             : Kind::any);
  const std::size_t first = is_vote ? 1 : 0;
  const std::size_t count = now_->operands.size();
  const bool has_threads = count > first + (is_vote ? 2 : 1);
  if (has("arrive") && !has_threads) unsupported("the number of threads is missing");
  give(0, count > first ? read(first, 32) : splat(0, 32));
  give(1, has_threads ? read(first + 1, 32) : splat(0, 32));
  if (is_vote) give(2, read_predicate(count - 1));
  call(std::move(made));
  if (!is_vote) return;
  has("popc") ? write(0, take(0, 32)) : write(0, take_predicate(0));
}

void Lowering::cluster_barrier() {
  if (has("arrive")) return call(site(helpers::arrive_at_cluster));
  if (!has("wait")) unsupported();
  call(site(helpers::wait_for_cluster));
}

void Lowering::map_address() {
  const unsigned bits = type_at_end().bits;
  Site made = site(helpers::map_address);
  made.generic = !has("shared::cluster");
  if (made.generic && bits != 64) unsupported("generic addresses have 64 bits");
  give(0, read(1, 64));
  give(1, read(2, 32));
  call(std::move(made));
  write(0, builder_.CreateTrunc(take(0, 64), integers(bits)));
}

void Lowering::rank_of_address() {
  Site made = site(helpers::rank_of_address);
  made.generic = !has("shared::cluster");
  give(0, read(1, 64));
  call_and_write(std::move(made), 32);
}

}  // namespace cubit::runtime::cpu
