// Who knows what: the order that barriers, fences, strong accesses and asynchronous copies make between the warps of a
// launch. PTX ISA, "Memory Consistency Model".
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "runtime/cpu/frame.hpp"
#include "runtime/cpu/watch/clock.hpp"

namespace cubit::runtime::cpu {

/// How far an ordering instruction reaches: to the block, or to the device.
enum Scope : std::uint8_t { kBlock, kDevice, kScopes };

/// What a memory instruction does to order.
struct Order {
  bool is_strong = false;  ///< atomic, volatile, relaxed or more: not a race with its like
  bool acquires = false;
  bool releases = false;
  Scope scope = kDevice;
};
Order order_of(const ptx::Instruction& instruction);

/// Of the past of all agents.
struct Knowledge {
  Clock clock;    ///< what is over
  Clock proxied;  ///< what of it is behind a fence between the proxies: bulk copies may rely on it

  void join(const Knowledge& other) {
    clock.join(other.clock);
    proxied.join(other.proxied);
  }
};

class HappensBefore {
 public:
  /// What strong writes have left at an address: for everybody, and for the block that wrote there last.
  struct Published {
    Knowledge to_device;
    Knowledge to_block;
    std::uint32_t block = 0;
  };
  struct Moment {
    Agent agent;
    std::uint32_t time;
  };

  void start(const Cluster& cluster);

  const Knowledge& of(const Warp& warp) const { return histories_[place_of(warp)].knowledge; }
  Moment now(const Warp& warp) const;
  static bool is_copier(Agent agent) { return agent >= kFirstCopier; }
  std::uint32_t block_of(Agent agent) const { return agent / warps_; }
  std::uint32_t warp_of(Agent agent) const { return agent % warps_; }

  void acquire(const Warp& warp, const Order& order, const Published& published);
  void release(const Warp& warp, const Order& order, Published& published, bool keeps);
  void fence(const Warp& warp, const Order& order);
  void fence_proxies(const Warp& warp);

  /// At a barrier of any kind: what a warp has done is known to those who pass after it has arrived. A barrier that is
  /// used again is another one, or has been forgotten.
  void arrive(const Warp& warp, std::uint64_t barrier);
  void pass(const Warp& warp, std::uint64_t barrier) { history(warp).knowledge.join(barriers_[barrier]); }
  void forget(std::uint64_t barrier) { barriers_.erase(barrier); }
  static std::uint64_t block_barrier(const Cta& cta, std::size_t index) {
    return std::uint64_t{cta.rank} << kRankShift | index;
  }
  static std::uint64_t cluster_barrier(std::uint32_t generation) { return std::uint64_t{1} << 32 | generation; }

  /// Arrivals at an mbarrier publish what their warp knows when the phase ends, to those who see that it has.
  void arrive_mbarrier(const Warp& warp, const std::byte* object);
  void end_phase(const std::byte* object) { mbarriers_[object].ended.join(mbarriers_[object].pending); }
  void pass_mbarrier(const Warp& warp, const std::byte* object) {
    history(warp).knowledge.join(mbarriers_[object].ended);
  }
  /// The moment of a copy that reports to `object`: known to those who pass its phase.
  Moment land(const std::byte* object);

 private:
  static constexpr Agent kFirstCopier = Agent{1} << 31;

  using ByScope = std::array<Knowledge, kScopes>;
  struct History {
    Agent agent = kNobody;
    Knowledge knowledge;
    ByScope fenced;  ///< what a strong write publishes
    ByScope seen;    ///< what strong reads have found: known after the next fence
  };
  struct Mbarrier {
    Knowledge pending;
    Knowledge ended;
    Agent copier = kNobody;  ///< the agent of the copies that report here
    std::uint32_t landed = 0;
  };

  std::size_t place_of(const Warp& warp) const {
    return warp.cta->rank * warps_ + static_cast<std::size_t>(warp.index);
  }
  History& history(const Warp& warp) { return histories_[place_of(warp)]; }
  static void tick(History& own) { own.knowledge.clock.set(own.agent, own.knowledge.clock.at(own.agent) + 1); }

  std::uint32_t warps_ = 1;         ///< of a block
  std::vector<History> histories_;  ///< of the cluster's warps
  std::unordered_map<std::uint64_t, Knowledge> barriers_;
  std::unordered_map<const std::byte*, Mbarrier> mbarriers_;
  Agent next_copier_ = kFirstCopier;
};

}  // namespace cubit::runtime::cpu
