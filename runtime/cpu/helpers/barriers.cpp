// Executes bar, barrier and barrier.cluster: arrival, waiting and opening. PTX ISA, "bar, barrier", "barrier.cluster".
//
// A barrier of the block counts threads in whole warps. A barrier for the whole block does not wait for warps that have
// ended. The barrier of the cluster counts lanes: every lane that has not ended arrives once in each generation.
#include <fmt/format.h>

#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu {
namespace {

bool is_complete(const Cta& cta, const NamedBarrier& barrier) {
  if (barrier.arrived == 0) return false;
  if (barrier.expected != 0) return barrier.arrived >= barrier.expected;
  std::uint32_t alive = 0;
  for (const Warp* warp : cta.warps) alive += warp->state == WarpState::done ? 0 : kLanes;
  return barrier.arrived >= alive;
}

void pass_cluster_barrier(const Warp& warp) {
  if (Checker* const checker = checker_of(warp))
    checker->order.pass(warp, HappensBefore::cluster_barrier(warp.cluster_generation));
}

}  // namespace

void try_to_open(Cta& cta, std::size_t index) {
  NamedBarrier& barrier = cta.barriers[index];
  if (!is_complete(cta, barrier)) return;
  for (Warp* warp : cta.warps) {
    if (warp->state != WarpState::at_barrier || warp->barrier != index) continue;
    warp->state = WarpState::ready;
    warp->votes = barrier.votes;
    warp->voters = barrier.voters;
    if (Checker* const checker = checker_of(*warp))
      checker->order.pass(*warp, HappensBefore::block_barrier(cta, index));
  }
  if (Checker* const checker = checker_of(*cta.warps.front()))
    checker->order.forget(HappensBefore::block_barrier(cta, index));
  barrier = {};
  ++cta.cluster->changes;
}

void try_to_open(Cluster& cluster) {
  for (const Cta* cta : cluster.ctas) {
    for (const Warp* warp : cta->warps) {
      if ((warp->alive & ~warp->cluster_arrived) != 0) return;
    }
  }
  ++cluster.generation;
  ++cluster.changes;
  for (const Cta* cta : cluster.ctas) {
    for (Warp* warp : cta->warps) {
      warp->cluster_arrived = 0;
      if (warp->state != WarpState::at_cluster_barrier) continue;
      warp->state = WarpState::ready;
      pass_cluster_barrier(*warp);
    }
  }
}

void end_warp(Warp& warp) {
  warp.state = WarpState::done;
  warp.alive = 0;
  land_at_end(warp);
  ++warp.cta->cluster->changes;
  for (std::size_t i = 0; i < kNamedBarriers; ++i) try_to_open(*warp.cta, i);
  try_to_open(*warp.cta->cluster);
}

namespace helpers {
namespace {

/// True if all lanes of the warp that have not ended execute the barrier; otherwise reports a failure.
bool all_lanes_here(Warp& warp, Mask mask, const Site& site) {
  if (mask == warp.alive) return true;
  warp.fail(site, __builtin_ctz(mask),
            fmt::format("lanes {:#010x} of {:#010x} are at a barrier of the block", mask, warp.alive));
  return false;
}

bool join(Warp& warp, const Site& site, int lane, std::uint32_t index, std::uint32_t threads) {
  if (index >= kNamedBarriers) {
    warp.fail(site, lane, fmt::format("a block has the barriers 0 to {}, not {}", kNamedBarriers - 1, index));
    return false;
  }
  NamedBarrier& barrier = warp.cta->barriers[index];
  if (threads % kLanes != 0) {
    warp.fail(site, lane, fmt::format("a barrier is for a multiple of {} threads, not for {}", kLanes, threads));
    return false;
  }
  if (barrier.arrived != 0 && barrier.expected != threads) {
    warp.fail(site, lane,
              fmt::format("barrier {} is for {} threads, and other warps use it for {} (0: all of the block)", index,
                          threads, barrier.expected));
    return false;
  }
  barrier.expected = threads;
  barrier.arrived += kLanes;
  if (Checker* const checker = checker_of(warp))
    checker->order.arrive(warp, HappensBefore::block_barrier(*warp.cta, index));
  ++warp.cta->cluster->changes;
  return true;
}

void write_votes(Warp& warp, Mask mask, BarrierKind kind) {
  if (kind == BarrierKind::count)
    return for_lanes(mask, [&](int lane) { result<std::uint32_t>(warp).set(lane, warp.votes); });
  const bool holds = kind == BarrierKind::all ? warp.votes == warp.voters : warp.votes != 0;
  set_result_mask(warp, 0, holds ? mask : 0);
}

}  // namespace

void barrier(Warp& warp, Mask mask, const Site& site) {
  const auto kind = static_cast<BarrierKind>(site.kind);
  const bool is_vote = kind != BarrierKind::sync && kind != BarrierKind::arrive;
  if (warp.passed) {
    warp.passed = false;
    return write_votes(warp, mask, kind);
  }
  if (!all_lanes_here(warp, mask, site)) return;
  const int lane = __builtin_ctz(mask);
  const std::uint32_t index = source<std::uint32_t>(warp, 0)[lane];
  if (!join(warp, site, lane, index, source<std::uint32_t>(warp, 1)[lane])) return;
  NamedBarrier& joined = warp.cta->barriers[index];
  if (is_vote) {
    joined.voters += static_cast<std::uint32_t>(__builtin_popcount(mask));
    joined.votes += static_cast<std::uint32_t>(__builtin_popcount(source_mask(warp, 2) & mask));
  }
  if (kind != BarrierKind::arrive) {
    warp.barrier = index;
    warp.state = WarpState::at_barrier;
    warp.retry = is_vote;
    warp.passed = is_vote;
  }
  try_to_open(*warp.cta, index);
}

void arrive_at_cluster(Warp& warp, Mask mask, const Site& site) {
  const Mask twice = mask & warp.cluster_owed;
  if (twice != 0)
    return warp.fail(site, __builtin_ctz(twice),
                     "the thread arrives at the cluster's barrier again before it has waited");
  warp.cluster_arrived |= mask;
  warp.cluster_owed |= mask;
  warp.cluster_generation = warp.cta->cluster->generation;
  if (Checker* const checker = checker_of(warp)) {
    const std::uint64_t barrier = HappensBefore::cluster_barrier(warp.cluster_generation);
    site.instruction->has("relaxed") ? checker->order.arrive_relaxed(warp, barrier)
                                     : checker->order.arrive(warp, barrier);
  }
  ++warp.cta->cluster->changes;
  try_to_open(*warp.cta->cluster);
}

void wait_for_cluster(Warp& warp, Mask mask, const Site& site) {
  const Mask early = mask & ~warp.cluster_owed;
  if (early != 0)
    return warp.fail(site, __builtin_ctz(early), "the thread waits for the cluster's barrier without having arrived");
  warp.cluster_owed &= ~mask;
  if (warp.cluster_generation == warp.cta->cluster->generation) {
    warp.state = WarpState::at_cluster_barrier;
  } else {
    pass_cluster_barrier(warp);
  }
}

/// mapa: the address of the same offset in the block with a given rank. getctarank: the rank of an address's block.
void map_address(Warp& warp, Mask mask, const Site& site) {
  const std::uint64_t blocks = warp.cta->cluster->ctas.size();
  for_lanes(mask, [&](int lane) {
    const std::uint64_t address = source<std::uint64_t>(warp, 0)[lane];
    const std::uint32_t rank = source<std::uint32_t>(warp, 1)[lane];
    if (rank >= blocks)
      return warp.fail(site, lane, fmt::format("a cluster of {} blocks has no rank {}", blocks, rank));
    if (site.generic && (address & kWindowMask) != kSharedWindow)
      return warp.fail(site, lane, fmt::format("address {:#x} is not in shared memory", address));
    const std::uint64_t within = address & (kWindowMask | kSharedOffsetMask);
    result<std::uint64_t>(warp).set(lane, within | (std::uint64_t{rank} + 1) << kRankShift);
  });
}

void rank_of_address(Warp& warp, Mask mask, const Site& site) {
  for_lanes(mask, [&](int lane) {
    const std::uint64_t address = source<std::uint64_t>(warp, 0)[lane];
    if (site.generic && (address & kWindowMask) != kSharedWindow)
      return warp.fail(site, lane, fmt::format("address {:#x} is not in shared memory", address));
    const auto part = static_cast<std::uint32_t>((address & ~kWindowMask) >> kRankShift);
    result<std::uint32_t>(warp).set(lane, part == 0 ? warp.cta->rank : part - 1);
  });
}

}  // namespace helpers
}  // namespace cubit::runtime::cpu
