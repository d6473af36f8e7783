// Bulk copies, their groups and their landing. PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk",
// "cp.async.bulk.wait_group", "st.async", "red.async". See runtime/cpu/mbarrier.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/cluster.hpp"
#include "runtime/cpu/helpers.hpp"
#include "runtime/cpu/mbarrier.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu {

namespace {

/// The address of shared memory as the watchers have it.
std::uint64_t watched_place(const Cluster& cluster, const std::byte* place) {
  for (const Cta* cta : cluster.ctas) {
    if (place >= cta->shared && place < cta->shared + cta->shared_bytes)
      return std::uint64_t{cta->rank} << kRankShift | static_cast<std::uint64_t>(place - cta->shared);
  }
  return 0;
}

void watch_landing(const Cluster& cluster, const Delivery& delivery) {
  Checker* const checker = checker_of(*delivery.warp);
  if (checker == nullptr) return;
  if (delivery.reads_shared && delivery.src != nullptr)
    checker->end_reading(*delivery.warp, watched_place(cluster, delivery.src), delivery.bytes);
  if (delivery.object == nullptr) {  // what goes to global memory is written when its lane has waited for it
    Request made{.site = delivery.site, .kind = RequestKind::write, .bytes = delivery.bytes};
    made.add({delivery.lane, ptx::Space::global, reinterpret_cast<std::uint64_t>(delivery.dst)});
    return checker->request(*delivery.warp, made);
  }
  if (delivery.kind == Delivery::Kind::arrival) {
    checker->order.arrive_mbarrier(*delivery.warp, delivery.object);
  } else {
    checker->land_bulk(watched_place(cluster, delivery.dst), delivery.bytes, delivery.object);
  }
}

/// One lane's copy: what it writes, and what it reads.
void watch_start(Warp& warp, const Delivery& delivery) {
  Checker* const checker = checker_of(warp);
  if (checker == nullptr || warp.failure) return;
  const Cluster& cluster = *warp.cta->cluster;
  const auto request = [&](RequestKind kind, ptx::Space space, const std::byte* place) {
    Request made{.site = delivery.site, .kind = kind, .bytes = delivery.bytes};
    const bool shared = space == ptx::Space::shared;
    made.add({delivery.lane, space, shared ? watched_place(cluster, place) : reinterpret_cast<std::uint64_t>(place)});
    checker->request(warp, made);
  };
  if (delivery.object != nullptr) request(RequestKind::bulk_copy, ptx::Space::shared, delivery.dst);
  if (delivery.src == nullptr) return;
  if (delivery.reads_shared) {
    request(RequestKind::bulk_read, ptx::Space::shared, delivery.src);
  } else {
    request(RequestKind::read, ptx::Space::global, delivery.src);
  }
}

}  // namespace

void land(Cluster& cluster, Delivery& delivery) {
  Warp& warp = *delivery.warp;
  const bool is_arrival = delivery.kind == Delivery::Kind::arrival;
  if (is_arrival) helpers::finish_copies(warp, *delivery.site, delivery.lane, delivery.serial);
  const std::byte* const src = delivery.src != nullptr ? delivery.src : delivery.read.data();
  if (delivery.kind == Delivery::Kind::copy) std::memcpy(delivery.dst, src, delivery.bytes);
  if (delivery.kind == Delivery::Kind::reduce) helpers::reduce_range(*delivery.site, delivery.dst, src, delivery.bytes);
  ++cluster.changes;
  watch_landing(cluster, delivery);
  if (delivery.object == nullptr) return;
  const MbarrierChange change{.arrivals = is_arrival ? 1u : 0u, .bytes = -static_cast<std::int64_t>(delivery.bytes)};
  if (const std::string rule = apply(cluster, delivery.object, change); !rule.empty())
    warp.fail(*delivery.site, delivery.lane, rule);
}

namespace {

/// Lands those for which `is_due`, in the order in which they were started.
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
  if (Checker* const checker = checker_of(*delivery.warp); checker != nullptr && delivery.reads_shared)
    checker->end_reading(*delivery.warp, watched_place(cluster, delivery.src), delivery.bytes);
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

struct Ends {
  std::uint64_t dst;
  std::uint64_t src;
  std::uint64_t object;
  std::uint32_t bytes;
};

bool is_aligned(Warp& warp, const Site& site, int lane, const Ends& ends) {
  for (const std::uint64_t address : {ends.dst, ends.src}) {
    if (address % kUnit == 0) continue;
    warp.fail(site, lane, fmt::format("address {:#x} of a bulk copy is not a multiple of {}", address, kUnit));
    return false;
  }
  if (ends.bytes % kUnit == 0) return true;
  warp.fail(site, lane, fmt::format("{} bytes of a bulk copy are not a multiple of {}", ends.bytes, kUnit));
  return false;
}

std::uint64_t rank_part(const Warp& warp, std::uint64_t address) {
  const std::uint64_t part = address >> kRankShift;
  return part == 0 ? warp.cta->rank + 1 : part;
}

std::byte* shared_place(Warp& warp, const Site& site, int lane, std::uint64_t address, std::uint64_t bytes) {
  return resolve_range(warp, site, ptx::Space::shared, false, address, bytes, lane);
}

/// Into the shared memory of one block, whose mbarrier is told.
void send_to_block(Warp& warp, const Site& site, int lane, const Ends& ends, Delivery delivery) {
  if (rank_part(warp, ends.dst) != rank_part(warp, ends.object))
    return warp.fail(site, lane, "the mbarrier is not in the block that the bytes go to");
  delivery.dst = shared_place(warp, site, lane, ends.dst, delivery.bytes);
  delivery.object =
      resolve(warp, site, ptx::Space::shared, false, ends.object, static_cast<int>(sizeof(std::uint64_t)), lane);
  if (delivery.dst == nullptr || delivery.object == nullptr) return;
  watch_start(warp, delivery);
  warp.cta->cluster->deliveries.push_back(std::move(delivery));
}

void send_to_blocks(Warp& warp, const Site& site, int lane, const Ends& ends, const Delivery& delivery) {
  const std::uint32_t blocks = source<std::uint16_t>(warp, 4)[lane];
  const auto count = static_cast<int>(warp.cta->cluster->ctas.size());
  if (blocks >> count != 0)
    return warp.fail(site, lane, fmt::format("blocks {:#x} of a cluster that has {}", blocks, count));
  for_lanes(blocks, [&](int rank) {
    const std::uint64_t part = static_cast<std::uint64_t>(rank + 1) << kRankShift;
    Ends there = ends;
    there.dst = (ends.dst & kSharedOffsetMask) | part;
    there.object = (ends.object & kSharedOffsetMask) | part;
    send_to_block(warp, site, lane, there, delivery);
  });
}

Delivery begun(Warp& warp, const Site& site, int lane, bool reduces) {
  return {.kind = reduces ? Delivery::Kind::reduce : Delivery::Kind::copy,
          .warp = &warp,
          .lane = lane,
          .site = &site,
          .group = warp.bulk_groups[static_cast<std::size_t>(lane)]};
}

}  // namespace

void copy_bulk(Warp& warp, Mask mask, const Site& site) {
  const auto form = static_cast<BulkForm>(site.form);
  for_lanes(mask, [&](int lane) {
    const Ends ends{source<std::uint64_t>(warp, 0)[lane], source<std::uint64_t>(warp, 1)[lane],
                    source<std::uint64_t>(warp, 3)[lane], source<std::uint32_t>(warp, 2)[lane]};
    if (!is_aligned(warp, site, lane, ends)) return;
    Delivery delivery = begun(warp, site, lane, site.flag);
    delivery.bytes = ends.bytes;
    delivery.reads_shared = form != BulkForm::from_global && form != BulkForm::multicast;
    delivery.src = !delivery.reads_shared
                       ? resolve_range(warp, site, ptx::Space::global, false, ends.src, ends.bytes, lane)
                       : shared_place(warp, site, lane, ends.src, ends.bytes);
    if (delivery.src == nullptr) return;
    if (form == BulkForm::multicast) return send_to_blocks(warp, site, lane, ends, delivery);
    if (form != BulkForm::to_global) return send_to_block(warp, site, lane, ends, std::move(delivery));
    delivery.dst = resolve_range(warp, site, ptx::Space::global, false, ends.dst, ends.bytes, lane);
    if (delivery.dst == nullptr) return;
    watch_start(warp, delivery);
    warp.cta->cluster->deliveries.push_back(std::move(delivery));
  });
}

void send_value(Warp& warp, Mask mask, const Site& site) {
  const auto value_bytes = static_cast<std::size_t>(site.bytes);
  const auto bytes = value_bytes * static_cast<std::size_t>(site.count);
  for_lanes(mask, [&](int lane) {
    const Ends ends{source<std::uint64_t>(warp, 0)[lane], 0, source<std::uint64_t>(warp, 1)[lane], 0};
    if (ends.dst % bytes != 0)
      return warp.fail(site, lane, fmt::format("address {:#x} is not a multiple of {}", ends.dst, bytes));
    Delivery delivery = begun(warp, site, lane, site.flag);
    delivery.bytes = bytes;
    delivery.read.resize(bytes);
    for (int i = 0; i < site.count; ++i) {
      std::memcpy(delivery.read.data() + value_bytes * static_cast<std::size_t>(i),
                  warp.sources[2 + i] + value_bytes * static_cast<std::size_t>(lane), value_bytes);
    }
    send_to_block(warp, site, lane, ends, std::move(delivery));
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
