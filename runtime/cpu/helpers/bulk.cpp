// Executes bulk copies, their groups and their landing. PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk",
// "cp.async.bulk.wait_group", "st.async", "red.async". See runtime/cpu/execute/mbarrier.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/helpers/bulk.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu {

std::uint64_t watched_place(const Cluster& cluster, const std::byte* place) {
  for (const Cta* cta : cluster.ctas) {
    if (place >= cta->shared && place < cta->shared + cta->shared_bytes)
      return std::uint64_t{cta->rank} << kRankShift | static_cast<std::uint64_t>(place - cta->shared);
  }
  return reinterpret_cast<std::uint64_t>(place);
}

void watch_range(Warp& warp, const Site& site, int lane, RequestKind kind, ptx::Space space, const std::byte* place,
                 std::uint64_t bytes) {
  Checker* const checker = checker_of(warp);
  if (checker == nullptr || warp.failure) return;
  Request made{.site = &site, .kind = kind, .bytes = bytes};
  made.add({lane, space, watched_place(*warp.cta->cluster, place)});
  checker->request(warp, made);
}

namespace {

constexpr auto kSharedMemory = ptx::Space::shared;
constexpr auto kGlobalMemory = ptx::Space::global;

/// Calls body(space, place, bytes) for every range that the copy writes.
template <class Body>
void for_targets(const Delivery& delivery, Body body) {
  if (delivery.object != nullptr) return body(kSharedMemory, delivery.dst, delivery.bytes);
  if (delivery.strips.empty()) return body(kGlobalMemory, delivery.dst, delivery.bytes);
  for (const Strip& strip : delivery.strips) {
    if (strip.global != nullptr) body(kGlobalMemory, strip.global, strip.bytes);
  }
}

/// Calls body(space, place, bytes) for every range that the copy reads, or has still to read.
template <class Body>
void for_sources(const Delivery& delivery, Body body) {
  const auto space = delivery.reads_shared ? kSharedMemory : kGlobalMemory;
  if (delivery.src != nullptr) return body(space, delivery.src, delivery.bytes);
  for (const Strip& strip : delivery.strips) {
    if (!delivery.reads_shared && strip.global != nullptr) body(kGlobalMemory, strip.global, strip.bytes);
  }
}

/// Reports a landing to the checker. A warp that has ended waits for nothing, so its copies to global memory stay in
/// flight.
void watch_landing(const Cluster& cluster, const Delivery& delivery) {
  const Warp& warp = *delivery.warp;
  Checker* const checker = checker_of(warp);
  if (checker == nullptr) return;
  if (delivery.kind == Delivery::Kind::arrival) return checker->order.publish_thread_copies(warp, delivery.object);
  const bool reports = delivery.object != nullptr;
  if (!reports && warp.state == WarpState::done) return;
  const auto now = reports ? checker->order.land(delivery.object) : checker->order.land_group(warp);
  for_targets(delivery, [&](ptx::Space space, const std::byte* place, std::uint64_t bytes) {
    checker->land(warp, space, watched_place(cluster, place), bytes, now);
  });
  for_sources(delivery, [&](ptx::Space space, const std::byte* place, std::uint64_t bytes) {
    checker->end_reading(warp, space, watched_place(cluster, place), bytes, now);
  });
}

/// Reports the start of one lane's copy to the checker: mbarrier, writes and reads.
void watch_start(const Delivery& delivery) {
  const auto watch = [&](RequestKind kind, ptx::Space space, const std::byte* place, std::uint64_t bytes) {
    watch_range(*delivery.warp, *delivery.site, delivery.lane, kind, space, place, bytes);
  };
  if (delivery.object != nullptr)
    watch(RequestKind::mbarrier_use, kSharedMemory, delivery.object, sizeof(std::uint64_t));
  for_targets(delivery, [&](auto... range) { watch(RequestKind::bulk_copy, range...); });
  for_sources(delivery, [&](auto... range) { watch(RequestKind::bulk_read, range...); });
}

/// Copies strips. Strips outside the tensor are filled with zeros.
void copy_strips(const Delivery& delivery, const std::byte* src) {
  for (const Strip& strip : delivery.strips) {
    if (delivery.object == nullptr) {
      if (strip.global != nullptr) std::memcpy(strip.global, src + strip.offset, strip.bytes);
    } else if (strip.global != nullptr) {
      std::memcpy(delivery.dst + strip.offset, strip.global, strip.bytes);
    } else {
      std::memset(delivery.dst + strip.offset, 0, strip.bytes);
    }
  }
}

void move_bytes(const Delivery& delivery) {
  const std::byte* const src = delivery.src != nullptr ? delivery.src : delivery.read.data();
  if (!delivery.strips.empty()) return copy_strips(delivery, src);
  if (delivery.kind == Delivery::Kind::copy) std::memcpy(delivery.dst, src, delivery.bytes);
  if (delivery.kind == Delivery::Kind::reduce) helpers::reduce_range(*delivery.site, delivery.dst, src, delivery.bytes);
}

}  // namespace

void land(Cluster& cluster, Delivery& delivery) {
  Warp& warp = *delivery.warp;
  const bool is_arrival = delivery.kind == Delivery::Kind::arrival;
  if (is_arrival) helpers::finish_copies(warp, *delivery.site, delivery.lane, delivery.serial);
  move_bytes(delivery);
  ++cluster.changes;
  watch_landing(cluster, delivery);
  if (delivery.object == nullptr) return;
  const MbarrierChange change{.arrivals = is_arrival ? 1u : 0u, .bytes = -static_cast<std::int64_t>(delivery.bytes)};
  if (const std::string rule = apply(cluster, delivery.object, change); !rule.empty())
    warp.fail(*delivery.site, delivery.lane, rule);
}

namespace {

/// Lands the operations for which `is_due` returns true, in the order of their start.
template <class IsDue>
bool land_due(Cluster& cluster, IsDue is_due) {
  return std::erase_if(cluster.deliveries, [&](Delivery& delivery) {
           if (!is_due(delivery)) return false;
           land(cluster, delivery);
           return true;
         }) != 0;
}

void read_source(const Cluster& cluster, Delivery& delivery) {
  if (delivery.src == nullptr) return;
  if (Checker* const checker = checker_of(*delivery.warp); checker != nullptr && delivery.reads_shared) {
    checker->end_reading(*delivery.warp, kSharedMemory, watched_place(cluster, delivery.src), delivery.bytes,
                         checker->order.now(*delivery.warp));
  }
  delivery.read.assign(delivery.src, delivery.src + delivery.bytes);
  delivery.src = nullptr;
}

}  // namespace

void land_for_phase(Cluster& cluster, const std::byte* object, bool parity) {
  land_due(cluster, [&](const Delivery& delivery) { return delivery.object == object && !is_over(object, parity); });
}

bool land_all(Cluster& cluster) {
  return land_due(cluster, [](const Delivery& delivery) { return delivery.object != nullptr; });
}

void land_at_end(Warp& warp) {
  land_due(*warp.cta->cluster, [&](const Delivery& delivery) {
    if (delivery.warp != &warp || delivery.object != nullptr) return false;
    if (delivery.src != nullptr)
      warp.fail(*delivery.site, delivery.lane, "the thread ends before this copy has read its shared memory");
    return true;
  });
}

namespace helpers {
namespace {

constexpr std::uint64_t kUnit = 16;

bool is_aligned(Warp& warp, const Site& site, int lane, std::initializer_list<std::uint64_t> addresses,
                std::uint64_t bytes) {
  for (const std::uint64_t address : addresses) {
    if (address % kUnit == 0) continue;
    warp.fail(site, lane, fmt::format("address {:#x} of a bulk copy is not a multiple of {}", address, kUnit));
    return false;
  }
  if (bytes % kUnit == 0) return true;
  warp.fail(site, lane, fmt::format("{} bytes of a bulk copy are not a multiple of {}", bytes, kUnit));
  return false;
}

std::uint64_t rank_part(const Warp& warp, std::uint64_t address) {
  const std::uint64_t part = address >> kRankShift;
  return part == 0 ? warp.cta->rank + 1 : part;
}

}  // namespace

std::byte* shared_place(Warp& warp, const Site& site, int lane, std::uint64_t address, std::uint64_t bytes) {
  return resolve_range(warp, site, ptx::Space::shared, false, address, bytes, lane);
}

void send(Delivery delivery) {
  watch_start(delivery);
  delivery.warp->cta->cluster->deliveries.push_back(std::move(delivery));
}

void send_to_block(const Target& target, Delivery delivery) {
  Warp& warp = *delivery.warp;
  const Site& site = *delivery.site;
  const int lane = delivery.lane;
  if (rank_part(warp, target.dst) != rank_part(warp, target.object))
    return warp.fail(site, lane, "the mbarrier is not in the block that the bytes go to");
  delivery.dst = shared_place(warp, site, lane, target.dst, delivery.bytes);
  delivery.object =
      resolve(warp, site, ptx::Space::shared, false, target.object, static_cast<int>(sizeof(std::uint64_t)), lane);
  if (delivery.dst != nullptr && delivery.object != nullptr) send(std::move(delivery));
}

void send_to_blocks(const Target& target, const Delivery& delivery) {
  Warp& warp = *delivery.warp;
  const Site& site = *delivery.site;
  const int lane = delivery.lane;
  const std::uint32_t blocks = source<std::uint16_t>(warp, 4)[lane];
  const auto count = static_cast<int>(warp.cta->cluster->ctas.size());
  if (blocks >> count != 0)
    return warp.fail(site, lane,
                     fmt::format("the mask of blocks {:#x} names blocks beyond the cluster's {}", blocks, count));
  for_lanes(blocks, [&](int rank) {
    const std::uint64_t part = static_cast<std::uint64_t>(rank + 1) << kRankShift;
    send_to_block({(target.dst & kSharedOffsetMask) | part, (target.object & kSharedOffsetMask) | part}, delivery);
  });
}

Delivery begun(Warp& warp, const Site& site, int lane, bool reduces) {
  return {.kind = reduces ? Delivery::Kind::reduce : Delivery::Kind::copy,
          .warp = &warp,
          .lane = lane,
          .site = &site,
          .group = warp.bulk_groups[static_cast<std::size_t>(lane)]};
}

void copy_bulk(Warp& warp, Mask mask, const Site& site) {
  const auto form = static_cast<BulkForm>(site.form);
  for_lanes(mask, [&](int lane) {
    const Target target{source<std::uint64_t>(warp, 0)[lane], source<std::uint64_t>(warp, 3)[lane]};
    const std::uint64_t origin = source<std::uint64_t>(warp, 1)[lane];
    Delivery delivery = begun(warp, site, lane, site.flag);
    delivery.bytes = source<std::uint32_t>(warp, 2)[lane];
    if (!is_aligned(warp, site, lane, {target.dst, origin}, delivery.bytes)) return;
    delivery.reads_shared = form != BulkForm::from_global && form != BulkForm::multicast;
    delivery.src = !delivery.reads_shared
                       ? resolve_range(warp, site, ptx::Space::global, false, origin, delivery.bytes, lane)
                       : shared_place(warp, site, lane, origin, delivery.bytes);
    if (delivery.src == nullptr) return;
    if (form == BulkForm::multicast) return send_to_blocks(target, delivery);
    if (form != BulkForm::to_global) return send_to_block(target, std::move(delivery));
    delivery.dst = resolve_range(warp, site, ptx::Space::global, false, target.dst, delivery.bytes, lane);
    if (delivery.dst != nullptr) send(std::move(delivery));
  });
}

void prefetch_bulk(Warp& warp, Mask mask, const Site& site) {
  for_lanes(mask, [&](int lane) {
    const std::uint64_t origin = source<std::uint64_t>(warp, 0)[lane];
    const std::uint64_t bytes = source<std::uint32_t>(warp, 1)[lane];
    if (is_aligned(warp, site, lane, {origin}, bytes))
      resolve_range(warp, site, ptx::Space::global, false, origin, bytes, lane);
  });
}

void send_value(Warp& warp, Mask mask, const Site& site) {
  const auto value_bytes = static_cast<std::size_t>(site.bytes);
  const auto bytes = value_bytes * static_cast<std::size_t>(site.count);
  for_lanes(mask, [&](int lane) {
    const Target target{source<std::uint64_t>(warp, 0)[lane], source<std::uint64_t>(warp, 1)[lane]};
    if (target.dst % bytes != 0)
      return warp.fail(site, lane, fmt::format("address {:#x} is not a multiple of {}", target.dst, bytes));
    Delivery delivery = begun(warp, site, lane, site.flag);
    delivery.bytes = bytes;
    delivery.read.resize(bytes);
    for (int i = 0; i < site.count; ++i) {
      std::memcpy(delivery.read.data() + value_bytes * static_cast<std::size_t>(i),
                  warp.sources[2 + i] + value_bytes * static_cast<std::size_t>(lane), value_bytes);
    }
    send_to_block(target, std::move(delivery));
  });
}

void commit_bulk(Warp& warp, Mask mask, const Site&) {
  for_lanes(mask, [&](int lane) { ++warp.bulk_groups[static_cast<std::size_t>(lane)]; });
}

void wait_bulk(Warp& warp, Mask mask, const Site& site) {
  Cluster& cluster = *warp.cta->cluster;
  const auto is_due = [&](const Delivery& delivery) {
    if (delivery.warp != &warp || delivery.object != nullptr || (mask >> delivery.lane & 1) == 0) return false;
    const std::int64_t committed = warp.bulk_groups[static_cast<std::size_t>(delivery.lane)];
    return delivery.group < committed - site.kind;
  };
  if (!site.flag) {
    land_due(cluster, is_due);
    return;
  }
  for (Delivery& delivery : cluster.deliveries) {
    if (is_due(delivery)) read_source(cluster, delivery);
  }
}

}  // namespace helpers
}  // namespace cubit::runtime::cpu
