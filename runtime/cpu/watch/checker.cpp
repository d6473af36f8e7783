#include "runtime/cpu/watch/checker.hpp"

#include <fmt/format.h>

#include "runtime/cpu/cluster.hpp"

namespace cubit::runtime::cpu {
namespace {

const char* space_name(ptx::Space space) { return space == ptx::Space::shared ? "shared" : "global"; }

/// The bytes of word `word` that [first, last) covers.
std::uint8_t bytes_in(std::uint64_t word, std::uint64_t first, std::uint64_t last) {
  std::uint8_t mask = 0;
  for (std::uint64_t i = 0; i < kWordBytes; ++i) {
    if (word + i >= first && word + i < last) mask = static_cast<std::uint8_t>(mask | 1u << i);
  }
  return mask;
}

template <class Body>
void for_words(std::uint64_t address, int bytes, Body body) {
  const std::uint64_t last = address + static_cast<std::uint64_t>(bytes);
  for (std::uint64_t word = address / kWordBytes * kWordBytes; word < last; word += kWordBytes)
    body(word, bytes_in(word, address, last));
}

}  // namespace

Checker::Checker(const Program& program) : program_(program) {
  for (const Site& site : program.sites) orders_.push_back(order_of(*site.instruction));
}

/// Relaxed accesses are strong: they race with weak ones only. An atomic without an order is relaxed, and a reduction
/// acquires nothing. A fence is both, whatever it says: finer ones do not occur in cubit's templates.
Checker::Order Checker::order_of(const ptx::Instruction& instruction) {
  const bool is_atomic = instruction.root == "atom" || instruction.root == "red";
  const bool is_fence = instruction.root == "fence" || instruction.root == "membar";
  const bool both = instruction.has("acq_rel") || instruction.has("sc") || is_fence;
  Order order;
  order.acquires = both || instruction.has("acquire");
  order.releases = both || instruction.has("release");
  order.is_strong = is_atomic || order.acquires || order.releases || instruction.has("relaxed") ||
                    instruction.has("volatile") || instruction.has("mmio");
  order.scope = instruction.has("cta") ? kBlock : kDevice;
  return order;
}

void Checker::start(const Cluster& cluster) {
  histories_.clear();
  for (const Cta* cta : cluster.ctas) {
    warps_ = cta->warps.size();
    for (std::size_t i = 0; i < warps_; ++i) {
      History& own = histories_.emplace_back();
      own.agent = static_cast<Agent>(cta->number() * warps_ + i);
      own.clock.set(own.agent, 1);
    }
  }
  barriers_.clear();
  shared_.clear();
  shared_published_.clear();
}

std::uint32_t Checker::site_index(const Site& site) const {
  return static_cast<std::uint32_t>(&site - program_.sites.data());
}

Touch Checker::touch(const Warp& warp, const Site& site, int lane) const {
  const History& own = histories_[place_of(warp)];
  const std::uint32_t index = site_index(site);
  return {.agent = own.agent,
          .time = own.clock.at(own.agent),
          .site = index,
          .lane = static_cast<std::uint8_t>(lane),
          .is_strong = orders_[index].is_strong};
}

void Checker::tick(History& own) { own.clock.set(own.agent, own.clock.at(own.agent) + 1); }

void Checker::request(Warp& warp, const Request& request) {
  for (int i = 0; i < request.count && !warp.failure; ++i) {
    const LaneRequest& lane = request.lanes[static_cast<std::size_t>(i)];
    if (lane.space == ptx::Space::shared || lane.space == ptx::Space::global) lane_request(warp, request, lane);
  }
}

void Checker::lane_request(Warp& warp, const Request& request, const LaneRequest& lane) {
  const Order& order = orders_[site_index(*request.site)];
  auto& all = lane.space == ptx::Space::shared ? shared_published_ : global_published_;
  if (order.is_strong && request.kind != RequestKind::write) acquire(warp, order, all[lane.address]);
  const Touch now = touch(warp, *request.site, lane.lane);
  bool good = true;
  for_words(lane.address, request.bytes, [&](std::uint64_t word, std::uint8_t bytes) {
    Touch part = now;
    part.bytes = bytes;
    if (good) good = word_request(warp, request, lane, word, part);
  });
  if (!good || request.kind == RequestKind::read) return;
  if (order.is_strong) {
    release(warp, order, all[lane.address], request.kind == RequestKind::atomic);
  } else if (!all.empty()) {
    all.erase(lane.address);
  }
}

/// False after a report.
bool Checker::word_request(Warp& warp, const Request& request, const LaneRequest& lane, std::uint64_t address,
                           Touch now) {
  Shadow& shadow = lane.space == ptx::Space::shared ? shared_ : global_;
  Word& word = shadow.at(address);
  now.is_write = request.kind != RequestKind::read;
  const bool reads = request.kind == RequestKind::read || request.kind == RequestKind::atomic;
  if (reads && lane.space == ptx::Space::shared && report_unwritten(warp, request, lane, word, now, address))
    return false;
  if ((word.arriving & now.bytes) != 0) {
    warp.fail(*request.site, lane.lane,
              fmt::format("shared memory {:#x} is used while an asynchronous copy to it is under way: {}", address,
                          name_of(warp, word.write)));
    return false;
  }
  const Clock& clock = history(warp).clock;
  const Touch* const earlier = now.is_write ? shadow.write(address, now, clock) : shadow.read(address, now, clock);
  // From its start on nobody may touch the bytes of a copy, and whoever had to be done with them must be done then.
  if (request.kind == RequestKind::copy) word.arriving |= now.bytes;
  if (earlier == nullptr) return true;
  report_race(warp, *request.site, lane, now, *earlier);
  return false;
}

bool Checker::report_unwritten(Warp& warp, const Request& request, const LaneRequest& lane, const Word& word,
                               const Touch& now, std::uint64_t address) {
  const auto known = static_cast<std::uint8_t>(word.written | word.arriving);
  if ((now.bytes & ~known) == 0) return false;
  warp.fail(*request.site, lane.lane,
            fmt::format("{} bytes at shared memory {:#x} are read, and nobody has written {:#x}", request.bytes,
                        lane.address, address));
  return true;
}

void Checker::report_race(Warp& warp, const Site& site, const LaneRequest& lane, const Touch& now,
                          const Touch& earlier) {
  warp.fail(site, lane.lane,
            fmt::format("race in {} memory at {:#x}: this {} is not ordered after the {} by {}", space_name(lane.space),
                        lane.address, now.is_write ? "write" : "read", earlier.is_write ? "write" : "read",
                        name_of(warp, earlier)));
}

std::string Checker::name_of(const Warp& warp, const Touch& touch) const {
  const std::size_t block = touch.agent / warps_;
  const std::string where = block == warp.cta->number() ? "" : fmt::format("block {}, ", block);
  return fmt::format("{}warp {}, lane {} ({})", where, touch.agent % warps_, touch.lane,
                     program_.place(*program_.sites[touch.site].instruction));
}

// ---- order ----

/// What is published for the device is published for the block as well.
void Checker::acquire(Warp& warp, const Order& order, const Published& published) {
  History& own = history(warp);
  for (std::size_t scope = kBlock; scope < kScopes; ++scope) own.seen[scope].join(published[scope]);
  if (order.acquires) own.clock.join(own.seen[order.scope]);
}

/// A read-modify-write keeps what was published before it.
void Checker::release(Warp& warp, const Order& order, Published& published, bool keeps) {
  History& own = history(warp);
  if (!keeps) published = {};
  for (std::size_t scope = kBlock; scope < kScopes; ++scope) {
    const bool covered = order.releases && order.scope >= scope;
    published[scope].join(covered ? own.clock : own.fenced[scope]);
  }
  if (order.releases) tick(own);
}

void Checker::fence(Warp& warp, const Site& site) {
  const Order& order = orders_[site_index(site)];
  History& own = history(warp);
  own.clock.join(own.seen[order.scope]);
  for (std::size_t scope = kBlock; scope <= order.scope; ++scope) own.fenced[scope] = own.clock;
  tick(own);
}

void Checker::arrive(const Warp& warp, std::uint64_t barrier) {
  History& own = history(warp);
  barriers_[barrier].join(own.clock);
  tick(own);
}

void Checker::pass(const Warp& warp, std::uint64_t barrier) { history(warp).clock.join(barriers_[barrier]); }

// ---- asynchronous copies ----

void Checker::land_copy(Warp& warp, int lane, std::uint64_t dst, int bytes) {
  const History& own = history(warp);
  for_words(dst, bytes, [&](std::uint64_t address, std::uint8_t mask) {
    Word& word = shared_.at(address);
    word.arriving = static_cast<std::uint8_t>(word.arriving & ~mask);
    word.write.agent = own.agent;
    word.write.time = own.clock.at(own.agent);
    word.write.lane = static_cast<std::uint8_t>(lane);
  });
}

}  // namespace cubit::runtime::cpu
