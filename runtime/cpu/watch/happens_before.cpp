// Implements the happens-before order: which knowledge fences, strong accesses and copies pass on.
#include "runtime/cpu/watch/happens_before.hpp"

#include <algorithm>

#include "runtime/cpu/execute/cluster.hpp"

namespace cubit::runtime::cpu {

/// An atomic without an order is relaxed. Every fence acquires and releases, whatever it says; cubit's templates use no
/// finer fences.
Order order_of(const ptx::Instruction& instruction) {
  const bool is_atomic = instruction.root == "atom" || instruction.root == "red" ||
                         (instruction.root == "cp" && instruction.has("reduce"));
  const bool is_fence = instruction.root == "fence" || instruction.root == "membar";
  const bool both = instruction.has("acq_rel") || instruction.has("sc") || is_fence;
  Order order;
  order.acquires = both || instruction.has("acquire");
  order.releases = both || instruction.has("release");
  order.is_strong = is_atomic || order.acquires || order.releases || instruction.has("relaxed") ||
                    instruction.has("volatile") || instruction.has("mmio");
  order.scope = instruction.has("cta") ? kBlock : instruction.has("cluster") ? kCluster : kDevice;
  return order;
}

void HappensBefore::start(const Cluster& cluster) {
  histories_.clear();
  blocks_.clear();
  for (const Cta* cta : cluster.ctas) {
    warps_ = static_cast<std::uint32_t>(cta->warps.size());
    blocks_.push_back(cta->number());
    for (std::uint32_t i = 0; i < warps_; ++i) {
      History& own = histories_.emplace_back();
      own.agent = cta->number() * warps_ + i;
      tick(own);
    }
  }
  barriers_.clear();
  mbarriers_.clear();
}

HappensBefore::Moment HappensBefore::now(const Warp& warp) const {
  const History& own = histories_[place_of(warp)];
  return {own.agent, own.knowledge.clock.at(own.agent)};
}

Scope HappensBefore::distance(Agent running, Agent other) const {
  if (is_copier(other) || block_of(running) == block_of(other)) return kBlock;
  return std::find(blocks_.begin(), blocks_.end(), block_of(other)) != blocks_.end() ? kCluster : kDevice;
}

/// Two strong accesses create order if the scope of each includes the other's agent. Knowledge released to a block
/// reaches every acquire in that block, and an acquire at block scope takes nothing from another block.
void HappensBefore::acquire(const Warp& warp, const Order& order, const Published& published) {
  History& own = history(warp);
  const auto see = [&](std::size_t reach) {
    for (std::size_t scope = reach; scope < kScopes; ++scope) own.seen[scope].join(published.to[reach]);
  };
  see(kDevice);
  if (published.cluster == blocks_.front()) see(kCluster);
  if (published.block == warp.cta->number()) see(kBlock);
  if (order.acquires) own.knowledge.join(own.seen[order.scope]);
}

/// A read-modify-write keeps what was published before it.
void HappensBefore::release(const Warp& warp, const Order& order, Published& published, bool keeps) {
  History& own = history(warp);
  if (!keeps) published = {};
  if (published.block != warp.cta->number()) published.to[kBlock] = {};
  if (published.cluster != blocks_.front()) published.to[kCluster] = {};
  published.block = warp.cta->number();
  published.cluster = blocks_.front();
  for (std::size_t reach = 0; reach < kScopes; ++reach)
    published.to[reach].join(order.releases && reach <= order.scope ? own.knowledge : own.fenced[reach]);
  if (order.releases) tick(own);
}

void HappensBefore::fence(const Warp& warp, const Order& order) {
  History& own = history(warp);
  own.knowledge.join(own.seen[order.scope]);
  for (std::size_t scope = kBlock; scope <= order.scope; ++scope) own.fenced[scope] = own.knowledge;
  tick(own);
}

void HappensBefore::fence_proxies(const Warp& warp, Proxied memory) {
  Knowledge& knowledge = history(warp).knowledge;
  knowledge.proxied[memory] = knowledge.clock;
  tick(history(warp));
}

void HappensBefore::fence_inits(const Warp& warp) {
  History& own = history(warp);
  own.fenced_inits = own.knowledge.clock;
  tick(own);
}

void HappensBefore::arrive(const Warp& warp, std::uint64_t barrier) {
  barriers_[barrier].join(of(warp));
  tick(history(warp));
}

void HappensBefore::arrive_mbarrier(const Warp& warp, const std::byte* object) {
  mbarriers_[object].pending.join(of(warp));
  tick(history(warp));
}

HappensBefore::Moment HappensBefore::land_thread_copy(const Warp& warp, bool is_waited_for) {
  History& own = history(warp);
  const Moment now{kFirstThreadCopier + own.agent, ++own.landed};
  if (is_waited_for) own.knowledge.clock.set(now.agent, now.time);
  return now;
}

void HappensBefore::publish_thread_copies(const Warp& warp, const std::byte* object) {
  const History& own = history(warp);
  mbarriers_[object].pending.clock.set(kFirstThreadCopier + own.agent, own.landed);
}

HappensBefore::Moment HappensBefore::land_group(const Warp& warp) {
  History& own = history(warp);
  if (own.copier == kNobody) own.copier = next_copier_++;
  own.knowledge.clock.set(own.copier, ++own.landed_groups);
  return {own.copier, own.landed_groups};
}

HappensBefore::Moment HappensBefore::land(const std::byte* object) {
  Mbarrier& mbarrier = mbarriers_[object];
  if (mbarrier.copier == kNobody) mbarrier.copier = next_copier_++;
  mbarrier.pending.clock.set(mbarrier.copier, ++mbarrier.landed);
  return {mbarrier.copier, mbarrier.landed};
}

}  // namespace cubit::runtime::cpu
