// Executes mbarrier instructions and cp.async.mbarrier.arrive. See runtime/cpu/execute/mbarrier.hpp.
#include "runtime/cpu/execute/mbarrier.hpp"

#include <fmt/format.h>

#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/execute/run_warp.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu {
namespace {

// Bits of the object, from bit 0: parity, expected (20 bits), missing (20), bytes (21, two's complement), and a tag
// that differs from zeros and from the initial content of shared memory.
constexpr int kExpectedShift = 1;
constexpr int kMissingShift = 21;
constexpr int kBytesShift = 41;
constexpr int kTagShift = 62;
constexpr std::uint64_t kTag = 1;
constexpr std::uint64_t kByteBits = (1u << 21) - 1;

std::string check(const MbarrierChange& change, const Mbarrier& state) {
  if (change.drop > state.expected) return fmt::format("{} arrivals are dropped of {}", change.drop, state.expected);
  if (change.arrivals > state.missing) {
    return fmt::format("{} arrivals at an mbarrier that expects {} more of {} in this phase", change.arrivals,
                       state.missing, state.expected);
  }
  const std::int64_t bytes = state.bytes + change.bytes;
  if (bytes > Mbarrier::kMost || -bytes > Mbarrier::kMost)
    return fmt::format("{} bytes: an mbarrier counts at most {}", bytes, Mbarrier::kMost);
  return "";
}

}  // namespace

std::uint64_t pack(const Mbarrier& state) {
  return (state.parity ? 1 : 0) | std::uint64_t{state.expected} << kExpectedShift |
         std::uint64_t{state.missing} << kMissingShift |
         (static_cast<std::uint64_t>(state.bytes) & kByteBits) << kBytesShift | kTag << kTagShift;
}

bool unpack(std::uint64_t word, Mbarrier& dst) {
  if (word >> kTagShift != kTag) return false;
  dst.parity = (word & 1) != 0;
  dst.expected = static_cast<std::uint32_t>(word >> kExpectedShift) & Mbarrier::kMost;
  dst.missing = static_cast<std::uint32_t>(word >> kMissingShift) & Mbarrier::kMost;
  const int unused = 32 - 21;
  dst.bytes =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(word >> kBytesShift & kByteBits) << unused) >> unused;
  return true;
}

bool read_mbarrier(const std::byte* object, Mbarrier& dst) {
  std::uint64_t word = 0;
  std::memcpy(&word, object, sizeof word);
  return unpack(word, dst);
}

std::string apply(Cluster& cluster, std::byte* object, const MbarrierChange& change) {
  Mbarrier state;
  if (!read_mbarrier(object, state)) return "there is no mbarrier: it was not initialised, or is overwritten";
  state.missing += change.more;
  if (std::string rule = check(change, state); !rule.empty()) return rule;
  state.bytes += static_cast<std::int32_t>(change.bytes);
  state.expected -= change.drop;
  state.missing -= change.arrivals;
  if (state.missing == 0 && state.bytes == 0) {
    if (!change.may_end_phase) return "an arrival with .noComplete ends the phase";
    state.parity = !state.parity;
    state.missing = state.expected;
    if (Checker* const checker = checker_of(*cluster.ctas.front()->warps.front())) checker->order.end_phase(object);
  }
  const std::uint64_t word = pack(state);
  std::memcpy(object, &word, sizeof word);
  ++cluster.changes;
  return "";
}

bool is_over(const std::byte* object, bool parity) {
  Mbarrier state;
  return read_mbarrier(object, state) && state.parity != parity;
}

namespace helpers {
namespace {

std::byte* object_of(Warp& warp, const Site& site, int lane) {
  const std::uint64_t address = source<std::uint64_t>(warp, 0)[lane] + static_cast<std::uint64_t>(site.offset);
  return resolve(warp, site, site.space, site.generic, address, sizeof(std::uint64_t), lane);
}

MbarrierChange change_of(Warp& warp, const Site& site, int lane) {
  const std::uint32_t count = source<std::uint32_t>(warp, 1)[lane];
  const std::int64_t bytes = source<std::uint32_t>(warp, 2)[lane];
  switch (static_cast<MbarrierKind>(site.kind)) {
    case MbarrierKind::expect:
      return {.bytes = bytes};
    case MbarrierKind::complete:
      return {.bytes = -bytes};
    case MbarrierKind::drop:
      return {.arrivals = count, .bytes = bytes, .drop = count, .may_end_phase = !site.flag};
    case MbarrierKind::arrive:
      break;
  }
  return {.arrivals = count, .bytes = bytes, .may_end_phase = !site.flag};
}

/// Reports an access to the checker. Returns false if the checker found an error.
bool watch_object(Warp& warp, const Site& site, int lane, RequestKind kind, const std::byte* object) {
  if (Checker* const checker = checker_of(warp); checker != nullptr && kind == RequestKind::mbarrier_init)
    checker->order.forget_mbarrier(object);
  watch_range(warp, site, lane, kind, ptx::Space::shared, object, sizeof(std::uint64_t));
  return !warp.failure;
}

Scope scope_of(const Site& site) { return site.instruction->has("cluster") ? kCluster : kBlock; }

/// An operation that only announces bytes does not arrive, so it publishes nothing.
void publish_arrival(const Warp& warp, const Site& site, const std::byte* object) {
  const auto kind = static_cast<MbarrierKind>(site.kind);
  const bool arrives = kind == MbarrierKind::arrive || kind == MbarrierKind::drop;
  Checker* const checker = checker_of(warp);
  if (!arrives || checker == nullptr) return;
  site.instruction->has("relaxed") ? checker->order.arrive_mbarrier_relaxed(warp, object, scope_of(site))
                                   : checker->order.arrive_mbarrier(warp, object);
}

}  // namespace

void init_mbarrier(Warp& warp, Mask mask, const Site& site) {
  for_lanes(mask, [&](int lane) {
    std::byte* const object = object_of(warp, site, lane);
    if (object == nullptr) return;
    const std::uint32_t count = source<std::uint32_t>(warp, 1)[lane];
    if (!site.flag && (count < 1 || count > Mbarrier::kMost))
      return warp.fail(site, lane, fmt::format("an mbarrier is for 1 to {} arrivals, not {}", Mbarrier::kMost, count));
    if (!watch_object(warp, site, lane, site.flag ? RequestKind::mbarrier_inval : RequestKind::mbarrier_init, object))
      return;
    const std::uint64_t word = site.flag ? ~std::uint64_t{0} : pack({.expected = count, .missing = count});
    std::memcpy(object, &word, sizeof word);
    ++warp.cta->cluster->changes;
  });
}

void change_mbarrier(Warp& warp, Mask mask, const Site& site) {
  for_lanes(mask, [&](int lane) {
    std::byte* const object = object_of(warp, site, lane);
    if (object == nullptr || !watch_object(warp, site, lane, RequestKind::mbarrier_use, object)) return;
    std::uint64_t before = 0;
    std::memcpy(&before, object, sizeof before);
    publish_arrival(warp, site, object);
    if (const std::string rule = apply(*warp.cta->cluster, object, change_of(warp, site, lane)); !rule.empty())
      return warp.fail(site, lane, rule);
    result<std::uint64_t>(warp).set(lane, before);
  });
}

void pending_count(Warp& warp, Mask mask, const Site& site) {
  for_lanes(mask, [&](int lane) {
    Mbarrier state;
    if (!unpack(source<std::uint64_t>(warp, 0)[lane], state))
      return warp.fail(site, lane, "the state is not one that mbarrier.arrive gave");
    result<std::uint32_t>(warp).set(lane, state.missing);
  });
}

void wait_for_phase(Warp& warp, Mask mask, const Site& site) {
  Mask over = 0;
  warp.phases.clear();
  for_lanes(mask, [&](int lane) {
    std::byte* const object = object_of(warp, site, lane);
    if (object == nullptr || !watch_object(warp, site, lane, RequestKind::mbarrier_use, object)) return;
    Mbarrier state;
    if (!read_mbarrier(object, state))
      return warp.fail(site, lane, "there is no mbarrier: it was not initialised, or is overwritten");
    // A token is the object before the operation, so its lowest bit is the parity.
    const bool parity = (source<std::uint64_t>(warp, 1)[lane] & 1) != 0;
    land_for_phase(*warp.cta->cluster, object, parity);
    if (is_over(object, parity)) {
      over |= Mask{1} << lane;  // here the lane observes that the phase has ended
      if (Checker* const checker = checker_of(warp)) {
        site.instruction->has("relaxed") ? checker->order.pass_mbarrier_relaxed(warp, object, scope_of(site))
                                         : checker->order.pass_mbarrier(warp, object);
      }
    } else {
      const std::uint64_t address = source<std::uint64_t>(warp, 0)[lane] + static_cast<std::uint64_t>(site.offset);
      warp.phases.push_back({object, address, parity});
    }
  });
  set_result_mask(warp, 0, over);
  if (warp.phases.empty() || warp.failure) return;
  if (!site.flag) return end_turn_soon(warp);
  warp.state = WarpState::at_mbarrier;
  warp.retry = true;
}

void arrive_after_copies(Warp& warp, Mask mask, const Site& site) {
  Cluster& cluster = *warp.cta->cluster;
  for_lanes(mask, [&](int lane) {
    std::byte* const object = object_of(warp, site, lane);
    if (object == nullptr || !watch_object(warp, site, lane, RequestKind::mbarrier_use, object)) return;
    if (const std::string rule = apply(cluster, object, {.more = site.flag ? 0u : 1u, .may_end_phase = false});
        !rule.empty())
      return warp.fail(site, lane, rule);
    cluster.deliveries.push_back({.kind = Delivery::Kind::arrival,
                                  .object = object,
                                  .warp = &warp,
                                  .lane = lane,
                                  .site = &site,
                                  .serial = warp.next_copy});
  });
}

}  // namespace helpers
}  // namespace cubit::runtime::cpu
