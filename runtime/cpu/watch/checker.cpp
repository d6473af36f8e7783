// Implements the memory checker: applies each request to the shadow memory and reports broken rules.
#include "runtime/cpu/watch/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/memory_map.hpp"

namespace cubit::runtime::cpu {
namespace {

/// The bytes of word `word` that [first, last) covers, as a mask.
std::uint8_t bytes_in(std::uint64_t word, std::uint64_t first, std::uint64_t last) {
  std::uint8_t mask = 0;
  for (std::uint64_t i = 0; i < kWordBytes; ++i) {
    if (word + i >= first && word + i < last) mask = static_cast<std::uint8_t>(mask | 1u << i);
  }
  return mask;
}

template <class Body>
void for_words(std::uint64_t address, std::uint64_t bytes, Body body) {
  const std::uint64_t last = address + bytes;
  for (std::uint64_t word = address / kWordBytes * kWordBytes; word < last; word += kWordBytes)
    body(word, bytes_in(word, address, last));
}

bool writes(RequestKind kind) {
  return kind != RequestKind::read && kind != RequestKind::bulk_read && kind != RequestKind::mbarrier_use;
}
bool reads(RequestKind kind) { return !writes(kind) || kind == RequestKind::atomic; }
bool is_of_mbarrier(RequestKind kind) { return kind >= RequestKind::mbarrier_init; }

/// Bulk copies access memory through the async proxy, and so do the reads of wgmma. st.async and red.async do not. PTX
/// ISA, "cp.async.bulk", "wgmma.mma_async".
bool is_in_async_proxy(const Request& request) {
  if (request.site->instruction->root == "wgmma") return true;
  const bool is_bulk = request.kind == RequestKind::bulk_copy || request.kind == RequestKind::bulk_read;
  return is_bulk && request.site->instruction->root == "cp";
}

const char* name_of(ptx::Space space) { return space == ptx::Space::shared ? "shared" : "global"; }

/// Two accesses to scalars overlap completely if they cover the same word with the same extent.
std::uint8_t extent_of(const Request& request, std::uint64_t offset) {
  const auto bytes = static_cast<std::uint64_t>(std::max(request.site->bytes, 1));
  return static_cast<std::uint8_t>(bytes << 3 | offset % bytes / kWordBytes);
}

void clear_bits(std::uint8_t& mask, std::uint8_t bits) { mask = static_cast<std::uint8_t>(mask & ~bits); }

}  // namespace

Checker::Checker(const Program& program) : program_(program) {
  for (const Site& site : program.sites) orders_.push_back(order_of(*site.instruction));
}

void Checker::start(const Cluster& cluster) {
  order.start(cluster);
  shared_.clear();
  shared_published_.clear();
}

std::uint32_t Checker::site_index(const Site& site) const {
  return static_cast<std::uint32_t>(&site - program_.sites.data());
}

Touch Checker::touch(const Warp& warp, const Request& request, const LaneRequest& lane) const {
  const HappensBefore::Moment now = order.now(warp);
  const std::uint32_t index = site_index(*request.site);
  const bool is_use = request.kind == RequestKind::mbarrier_use;
  return {.agent = now.agent,
          .time = now.time,
          .site = index,
          .lane = static_cast<std::uint8_t>(lane.lane),
          .is_write = writes(request.kind),
          .is_strong = is_of_mbarrier(request.kind) ? is_use : orders_[index].is_strong,
          .scope = static_cast<std::uint8_t>(orders_[index].scope & 3)};
}

void Checker::request(Warp& warp, const Request& request) {
  for (int i = 0; i < request.count && !warp.failure; ++i) {
    const LaneRequest& lane = request.lanes[static_cast<std::size_t>(i)];
    if (lane.space == ptx::Space::shared || lane.space == ptx::Space::global) lane_request(warp, request, lane);
  }
}

void Checker::lane_request(Warp& warp, const Request& request, const LaneRequest& lane) {
  const Order& kind = orders_[site_index(*request.site)];
  const bool is_ordering = kind.is_strong && !is_of_mbarrier(request.kind);
  PublishedByAddress& published = lane.space == ptx::Space::shared ? shared_published_ : global_published_;
  if (is_ordering && reads(request.kind)) order.acquire(warp, kind, published[lane.address]);
  const Touch now = touch(warp, request, lane);
  bool good = true;
  for_words(lane.address, request.bytes, [&](std::uint64_t address, std::uint8_t bytes) {
    Touch part = now;
    part.bytes = bytes;
    part.extent = extent_of(request, std::max(address, lane.address) - lane.address);
    good = good && word_request(warp, request, lane, address, part);
  });
  if (!good || !writes(request.kind)) return;
  if (is_ordering) {
    order.release(warp, kind, published[lane.address], request.kind == RequestKind::atomic);
  } else if (!published.empty()) {
    published.erase(lane.address);
  }
}

/// Returns false after a report.
bool Checker::word_request(Warp& warp, const Request& request, const LaneRequest& lane, std::uint64_t address,
                           Touch now) {
  std::string rule = broken_rule(warp, request, lane, address, now);
  Shadow& memory = shadow(lane.space);
  const Knowledge& known = order.of(warp);
  const bool knows_inits = request.kind == RequestKind::mbarrier_use && !known.inits.is_empty();
  Clock with_inits;
  if (knows_inits) {
    with_inits = known.clock;
    with_inits.join(known.inits);
  }
  const Clock& clock = knows_inits ? with_inits : known.clock;
  const Touch* const earlier = now.is_write ? memory.write(address, now, clock) : memory.read(address, now, clock);
  if (rule.empty() && earlier != nullptr) {
    rule = fmt::format("race in {} memory at {:#x}: this {} is not ordered after the {} by {}",
                       cpu::name_of(lane.space), lane.address, now.is_write ? "write" : "read",
                       earlier->is_write ? "write" : "read", name_of(warp, *earlier));
  }
  if (!rule.empty()) {
    warp.fail(*request.site, lane.lane, rule);
    return false;
  }
  if (now.is_write && lane.space == ptx::Space::global) mark_written(warp, address, now.bytes);
  // From the start of a copy, no access may touch its bytes, and all earlier accesses must be ordered before the copy.
  Word& word = memory.at(address);
  if (request.kind == RequestKind::copy || request.kind == RequestKind::bulk_copy) word.arriving |= now.bytes;
  if (request.kind == RequestKind::bulk_read) word.leaving |= now.bytes;
  if (!is_of_mbarrier(request.kind)) return true;
  word.is_mbarrier = request.kind != RequestKind::mbarrier_inval;
  if (!word.is_mbarrier) word.written = 0;
  return true;
}

/// True if all bytes of the word in `mask` have a value. The kernel's own variables always have values.
bool Checker::is_written(const Warp& warp, std::uint64_t address, std::uint8_t mask) {
  const MemoryMap* const memory = warp.cta->memory;
  for (std::uint64_t i = 0; i < kWordBytes && memory != nullptr; ++i) {
    const MemoryMap::Range* const range = (mask >> i & 1) == 0 ? nullptr : memory->find(address + i, 1);
    if (range == nullptr || range->written == nullptr) continue;
    if (std::atomic_ref(range->written[address + i - range->first]).load(std::memory_order_relaxed) == 0) return false;
  }
  return true;
}

void Checker::mark_written(const Warp& warp, std::uint64_t address, std::uint8_t mask) {
  const MemoryMap* const memory = warp.cta->memory;
  for (std::uint64_t i = 0; i < kWordBytes && memory != nullptr; ++i) {
    const MemoryMap::Range* const range = (mask >> i & 1) == 0 ? nullptr : memory->find(address + i, 1);
    if (range == nullptr || range->written == nullptr) continue;
    std::atomic_ref(range->written[address + i - range->first]).store(1, std::memory_order_relaxed);
  }
}

/// Checks all rules except races. Returns "" if no rule is broken.
std::string Checker::broken_rule(const Warp& warp, const Request& request, const LaneRequest& lane,
                                 std::uint64_t address, const Touch& now) {
  const bool is_shared = lane.space == ptx::Space::shared;
  const Word& word = shadow(lane.space).at(address);
  if (is_of_mbarrier(request.kind) || word.is_mbarrier) {
    if (std::string rule = broken_mbarrier_rule(request, lane, word); !rule.empty()) return rule;
  }
  if (std::string rule = broken_copy_rule(warp, request, lane, address, now); !rule.empty()) return rule;
  if (!reads(request.kind) || is_of_mbarrier(request.kind)) return "";
  if (is_shared ? (now.bytes & ~word.written) != 0 : !is_written(warp, address, now.bytes)) {
    return fmt::format("{} bytes at {}{:#x} are read, and nobody has written {:#x}", request.bytes,
                       is_shared ? "shared memory " : "", lane.address, address);
  }
  if (!is_shared && word.write.agent != kNobody && request.site->instruction->has("nc")) {
    return fmt::format("global memory {:#x} is read by ld.global.nc, and was written in this launch by {}", address,
                       name_of(warp, word.write));
  }
  return "";
}

std::string Checker::broken_mbarrier_rule(const Request& request, const LaneRequest& lane, const Word& word) const {
  if (request.kind == RequestKind::mbarrier_init && word.is_mbarrier)
    return fmt::format("the mbarrier at {:#x} is initialised again, without an mbarrier.inval", lane.address);
  if (request.kind == RequestKind::mbarrier_init) return "";
  if (is_of_mbarrier(request.kind))
    return word.is_mbarrier ? "" : fmt::format("there is no mbarrier at {:#x}: it was not initialised", lane.address);
  return fmt::format("{} bytes at shared memory {:#x} are {}, where an mbarrier is", request.bytes, lane.address,
                     writes(request.kind) ? "written" : "read");
}

/// Rules for operations in flight, and for accesses that bulk copies must not meet. Reductions do not conflict with
/// each other.
std::string Checker::broken_copy_rule(const Warp& warp, const Request& request, const LaneRequest& lane,
                                      std::uint64_t address, const Touch& now) {
  const Word& word = shadow(lane.space).at(address);
  const Touch& write = word.write;
  if ((word.arriving & now.bytes) != 0 && !(now.is_strong && write.is_strong)) {
    return fmt::format("{} memory {:#x} is used while an asynchronous copy to it is under way, by {}",
                       cpu::name_of(lane.space), address, name_of(warp, write));
  }
  if (now.is_write && (word.leaving & now.bytes) != 0) {
    return fmt::format("{} memory {:#x} is written while a bulk copy from it is under way, by {}",
                       cpu::name_of(lane.space), address, name_of(warp, word.read));
  }
  if (!is_in_async_proxy(request) || (write.bytes & now.bytes) == 0 || write.agent == kNobody) return "";
  const ptx::Instruction& writer = *program_.sites[write.site].instruction;
  if (writer.root == "cp" && writer.has("bulk")) return "";  // the same proxy, whether in flight or not
  const Proxied memory = lane.space == ptx::Space::shared ? kShared : kGlobal;
  if (order.of(warp).proxied[memory].at(write.agent) >= write.time) return "";
  const char* const user = request.site->instruction->root == "wgmma" ? "wgmma" : "a bulk copy";
  return fmt::format("{} memory {:#x} is used by {} without a fence.proxy.async after the write by {}",
                     cpu::name_of(lane.space), address, user, name_of(warp, write));
}

std::string Checker::name_of(const Warp& warp, const Touch& touch) const {
  const std::string place = program_.place(*program_.sites[touch.site].instruction);
  if (HappensBefore::is_copier(touch.agent)) return fmt::format("the copy of {}", place);
  const std::uint32_t block = order.block_of(touch.agent);
  const std::string where = block == warp.cta->number() ? "" : fmt::format("block {}, ", block);
  return fmt::format("{}warp {}, lane {} ({})", where, order.warp_of(touch.agent), touch.lane, place);
}

/// fence.proxy.async covers both memories unless it names one. Fences of other proxies do not affect bulk copies.
void Checker::fence(const Warp& warp, const Site& site) {
  const ptx::Instruction& fence = *site.instruction;
  if (fence.has("mbarrier_init")) return order.fence_inits(warp);
  if (!fence.has("proxy")) return order.fence(warp, orders_[site_index(site)]);
  if (!fence.has("async") && !fence.has("async::generic")) return;
  const bool of_shared = fence.has("shared::cta") || fence.has("shared::cluster");
  if (!fence.has("global")) order.fence_proxies(warp, kShared);
  if (!of_shared) order.fence_proxies(warp, kGlobal);
}

// ---- the ends of asynchronous copies ----

void Checker::land(const Warp& warp, ptx::Space space, std::uint64_t dst, std::uint64_t bytes,
                   HappensBefore::Moment now) {
  const Agent issuer = order.now(warp).agent;
  for_words(dst, bytes, [&](std::uint64_t address, std::uint8_t mask) {
    clear_bits(shadow(space).at(address).arriving, mask);
    shadow(space).land(address, issuer, now.agent, now.time);
  });
}

void Checker::end_reading(const Warp& warp, ptx::Space space, std::uint64_t src, std::uint64_t bytes,
                          HappensBefore::Moment now) {
  const Agent reader = order.now(warp).agent;
  for_words(src, bytes, [&](std::uint64_t address, std::uint8_t mask) {
    Word& word = shadow(space).at(address);
    clear_bits(word.leaving, mask);
    if (word.read.agent != reader) return;
    word.read.agent = now.agent;
    word.read.time = now.time;
  });
}

}  // namespace cubit::runtime::cpu
