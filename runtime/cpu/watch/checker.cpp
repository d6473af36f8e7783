#include "runtime/cpu/watch/checker.hpp"

#include <fmt/format.h>

#include <atomic>

#include "runtime/cpu/cluster.hpp"
#include "runtime/cpu/memory_map.hpp"

namespace cubit::runtime::cpu {
namespace {

/// The bytes of word `word` that [first, last) covers.
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

bool writes(RequestKind kind) { return kind != RequestKind::read && kind != RequestKind::bulk_read; }
bool reads(RequestKind kind) { return !writes(kind) || kind == RequestKind::atomic; }
bool is_bulk(RequestKind kind) { return kind == RequestKind::bulk_copy || kind == RequestKind::bulk_read; }

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

Touch Checker::touch(const Warp& warp, const Request& request, int lane) const {
  const HappensBefore::Moment now = order.now(warp);
  const std::uint32_t index = site_index(*request.site);
  return {.agent = now.agent,
          .time = now.time,
          .site = index,
          .lane = static_cast<std::uint8_t>(lane),
          .is_strong = orders_[index].is_strong,
          .is_write = writes(request.kind)};
}

void Checker::request(Warp& warp, const Request& request) {
  for (int i = 0; i < request.count && !warp.failure; ++i) {
    const LaneRequest& lane = request.lanes[static_cast<std::size_t>(i)];
    if (lane.space == ptx::Space::shared || lane.space == ptx::Space::global) lane_request(warp, request, lane);
  }
}

void Checker::lane_request(Warp& warp, const Request& request, const LaneRequest& lane) {
  const Order& kind = orders_[site_index(*request.site)];
  PublishedByAddress& published = lane.space == ptx::Space::shared ? shared_published_ : global_published_;
  if (kind.is_strong && reads(request.kind)) order.acquire(warp, kind, published[lane.address]);
  const Touch now = touch(warp, request, lane.lane);
  bool good = true;
  for_words(lane.address, request.bytes, [&](std::uint64_t address, std::uint8_t bytes) {
    Touch part = now;
    part.bytes = bytes;
    good = good && word_request(warp, request, lane, address, part);
  });
  if (!good || !writes(request.kind)) return;
  if (kind.is_strong) {
    order.release(warp, kind, published[lane.address], request.kind == RequestKind::atomic);
  } else if (!published.empty()) {
    published.erase(lane.address);
  }
}

/// False after a report.
bool Checker::word_request(Warp& warp, const Request& request, const LaneRequest& lane, std::uint64_t address,
                           Touch now) {
  std::string rule = broken_rule(warp, request, lane, address, now);
  Shadow& memory = shadow(lane.space);
  const Clock& clock = order.of(warp).clock;
  const Touch* const earlier = now.is_write ? memory.write(address, now, clock) : memory.read(address, now, clock);
  if (rule.empty() && earlier != nullptr) {
    rule = fmt::format("race in {} memory at {:#x}: this {} is not ordered after the {} by {}",
                       lane.space == ptx::Space::shared ? "shared" : "global", lane.address,
                       now.is_write ? "write" : "read", earlier->is_write ? "write" : "read", name_of(warp, *earlier));
  }
  if (!rule.empty()) {
    warp.fail(*request.site, lane.lane, rule);
    return false;
  }
  if (now.is_write && lane.space == ptx::Space::global) mark_written(warp, address, now.bytes);
  // From its start on nobody may touch the bytes of a copy, and whoever had to be done with them must be done then.
  Word& word = memory.at(address);
  // Reductions do not mind one another.
  const bool is_copy = request.kind == RequestKind::copy || request.kind == RequestKind::bulk_copy;
  if (is_copy && !now.is_strong) word.arriving |= now.bytes;
  if (request.kind == RequestKind::bulk_read) word.leaving |= now.bytes;
  return true;
}

/// Whether all bytes of a word that `mask` names have a value; the kernel's own variables do.
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

/// The rules but for races: "" if none is broken.
std::string Checker::broken_rule(const Warp& warp, const Request& request, const LaneRequest& lane,
                                 std::uint64_t address, const Touch& now) {
  if (lane.space == ptx::Space::global) {
    if (!reads(request.kind) || is_written(warp, address, now.bytes)) return "";
    return fmt::format("{} bytes at {:#x} are read, and nobody has written {:#x}", request.bytes, lane.address,
                       address);
  }
  const Word& word = shared_.at(address);
  if ((word.arriving & now.bytes) != 0) {
    return fmt::format("shared memory {:#x} is used while an asynchronous copy to it is under way, by {}", address,
                       name_of(warp, word.write));
  }
  if (now.is_write && (word.leaving & now.bytes) != 0) {
    return fmt::format("shared memory {:#x} is written while a bulk copy from it is under way, by {}", address,
                       name_of(warp, word.read));
  }
  if (reads(request.kind) && (now.bytes & ~word.written) != 0) {
    return fmt::format("{} bytes at shared memory {:#x} are read, and nobody has written {:#x}", request.bytes,
                       lane.address, address);
  }
  const Touch& write = word.write;
  const bool ordinary = write.agent != kNobody && !HappensBefore::is_copier(write.agent);
  if (is_bulk(request.kind) && ordinary && order.of(warp).proxied.at(write.agent) < write.time) {
    return fmt::format("shared memory {:#x} is used by a bulk copy without a fence.proxy.async after the write by {}",
                       address, name_of(warp, write));
  }
  return "";
}

std::string Checker::name_of(const Warp& warp, const Touch& touch) const {
  const std::string place = program_.place(*program_.sites[touch.site].instruction);
  if (HappensBefore::is_copier(touch.agent)) return fmt::format("the copy of {}", place);
  const std::uint32_t block = order.block_of(touch.agent);
  const std::string where = block == warp.cta->number() ? "" : fmt::format("block {}, ", block);
  return fmt::format("{}warp {}, lane {} ({})", where, order.warp_of(touch.agent), touch.lane, place);
}

void Checker::fence(const Warp& warp, const Site& site) {
  if (site.instruction->has("proxy")) return order.fence_proxies(warp);
  order.fence(warp, orders_[site_index(site)]);
}

// ---- the ends of asynchronous copies ----

void Checker::land_copy(const Warp& warp, int lane, std::uint64_t dst, int bytes) {
  const HappensBefore::Moment now = order.now(warp);
  for_words(dst, static_cast<std::uint64_t>(bytes), [&](std::uint64_t address, std::uint8_t mask) {
    Word& word = shared_.at(address);
    clear_bits(word.arriving, mask);
    word.write.agent = now.agent;
    word.write.time = now.time;
    word.write.lane = static_cast<std::uint8_t>(lane);
  });
}

void Checker::land_bulk(std::uint64_t dst, std::uint64_t bytes, const std::byte* object) {
  const HappensBefore::Moment now = order.land(object);
  for_words(dst, bytes, [&](std::uint64_t address, std::uint8_t mask) {
    Word& word = shared_.at(address);
    clear_bits(word.arriving, mask);
    word.write.agent = now.agent;
    word.write.time = now.time;
  });
}

void Checker::end_reading(const Warp& warp, std::uint64_t src, std::uint64_t bytes) {
  const HappensBefore::Moment now = order.now(warp);
  for_words(src, bytes, [&](std::uint64_t address, std::uint8_t mask) {
    Word& word = shared_.at(address);
    clear_bits(word.leaving, mask);
    if (word.read.agent == now.agent) word.read.time = now.time;
  });
}

}  // namespace cubit::runtime::cpu
