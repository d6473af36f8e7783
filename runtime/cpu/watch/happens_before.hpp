// Tracks the happens-before order that barriers, fences, strong accesses and asynchronous copies create between the
// warps of a launch. PTX ISA, "Memory Consistency Model".
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "runtime/cpu/execute/frame.hpp"
#include "runtime/cpu/watch/clock.hpp"

namespace cubit::runtime::cpu {

/// The scope of an ordering instruction: the block, the cluster, or the device.
enum Scope : std::uint8_t { kBlock, kCluster, kDevice, kScopes };

/// The memory that a fence of the async proxy covers.
enum Proxied : std::uint8_t { kShared, kGlobal, kProxied };

/// The ordering effect of a memory instruction.
struct Order {
  bool is_strong = false;  ///< atomic, volatile, relaxed or stronger: two strong accesses do not race
  bool acquires = false;
  bool releases = false;
  Scope scope = kDevice;
};
Order order_of(const ptx::Instruction& instruction);

/// The knowledge of an agent about the past of all agents.
struct Knowledge {
  Clock clock;                          ///< accesses that are ordered before
  Clock inits;                          ///< additional knowledge of mbarrier.init alone, after a fence.mbarrier_init
  std::array<Clock, kProxied> proxied;  ///< the part that is behind a fence.proxy.async, on which bulk copies may rely

  void join(const Knowledge& other) {
    clock.join(other.clock);
    inits.join(other.inits);
    for (std::size_t i = 0; i < kProxied; ++i) proxied[i].join(other.proxied[i]);
  }
};

class HappensBefore {
 public:
  /// Knowledge that strong writes have published at an address, by the scope it reaches from the last writer.
  struct Published {
    std::array<Knowledge, kScopes> to;
    std::uint32_t block = 0;
    std::uint32_t cluster = 0;
  };
  struct Moment {
    Agent agent;
    std::uint32_t time;
  };

  void start(const Cluster& cluster);

  const Knowledge& of(const Warp& warp) const { return histories_[place_of(warp)].knowledge; }
  Moment now(const Warp& warp) const;
  static bool is_copier(Agent agent) { return agent >= kFirstThreadCopier; }
  std::uint32_t block_of(Agent agent) const { return agent / warps_; }
  std::uint32_t warp_of(Agent agent) const { return agent % warps_; }
  /// The smallest scope that contains both agents. `running` belongs to the cluster that runs.
  Scope distance(Agent running, Agent other) const;

  void acquire(const Warp& warp, const Order& order, const Published& published);
  void release(const Warp& warp, const Order& order, Published& published, bool keeps);
  void fence(const Warp& warp, const Order& order);
  void fence_proxies(const Warp& warp, Proxied memory);
  void fence_inits(const Warp& warp);

  /// At any barrier, warps that pass after an arrival know what the arriving warp has done. A reused barrier counts as
  /// a new barrier or was forgotten before.
  void arrive(const Warp& warp, std::uint64_t barrier);
  /// barrier.cluster.arrive.relaxed publishes only what is behind a fence, including a fence of mbarrier.init alone.
  void arrive_relaxed(const Warp& warp, std::uint64_t barrier) {
    barriers_[barrier].join(history(warp).fenced[kCluster]);
    barriers_[barrier].inits.join(history(warp).fenced_inits);
  }
  void pass(const Warp& warp, std::uint64_t barrier) { history(warp).knowledge.join(barriers_[barrier]); }
  void forget(std::uint64_t barrier) { barriers_.erase(barrier); }
  static std::uint64_t block_barrier(const Cta& cta, std::size_t index) {
    return std::uint64_t{cta.rank} << kRankShift | index;
  }
  static std::uint64_t cluster_barrier(std::uint32_t generation) { return std::uint64_t{1} << 32 | generation; }

  /// Arrivals at an mbarrier publish their warp's knowledge when the phase ends. Warps that observe the end of the
  /// phase acquire that knowledge.
  void arrive_mbarrier(const Warp& warp, const std::byte* object);
  void arrive_mbarrier_relaxed(const Warp& warp, const std::byte* object, Scope scope) {
    mbarriers_[object].pending.join(history(warp).fenced[scope]);
  }
  void end_phase(const std::byte* object) { mbarriers_[object].ended.join(mbarriers_[object].pending); }
  void pass_mbarrier(const Warp& warp, const std::byte* object) {
    history(warp).knowledge.join(mbarriers_[object].ended);
  }
  void pass_mbarrier_relaxed(const Warp& warp, const std::byte* object, Scope scope) {
    for (std::size_t wider = scope; wider < kScopes; ++wider) history(warp).seen[wider].join(mbarriers_[object].ended);
  }
  void forget_mbarrier(const std::byte* object) { mbarriers_.erase(object); }

  // Asynchronous copies land at moments of their own. Agents that wait for a copy in one of these
  /// ways know of the landing.
  Moment land_thread_copy(const Warp& warp, bool is_waited_for);  ///< for a cp.async
  void publish_thread_copies(const Warp& warp,
                             const std::byte* object);  ///< cp.async.mbarrier.arrive publishes the copies that have
                                                        ///< landed
  Moment land(const std::byte* object);                 ///< for a bulk copy: known to warps that pass the phase of
                                                        ///< `object`
  Moment land_group(const Warp& warp);                  ///< for a bulk copy whose group the warp has waited for

 private:
  static constexpr Agent kFirstThreadCopier = Agent{1} << 30;  ///< plus the index of the warp
  static constexpr Agent kFirstCopier = Agent{1} << 31;

  using ByScope = std::array<Knowledge, kScopes>;
  struct History {
    Agent agent = kNobody;
    Knowledge knowledge;
    ByScope fenced;  ///< what a strong write publishes
    Clock fenced_inits;
    ByScope seen;              ///< what strong reads have found; known after the next fence
    std::uint32_t landed = 0;  ///< number of landed cp.async
    Agent copier = kNobody;    ///< agent of bulk copies that report to their group
    std::uint32_t landed_groups = 0;
  };
  struct Mbarrier {
    Knowledge pending;
    Knowledge ended;
    Agent copier = kNobody;  ///< agent of the copies that report to this mbarrier
    std::uint32_t landed = 0;
  };

  std::size_t place_of(const Warp& warp) const {
    return warp.cta->rank * warps_ + static_cast<std::size_t>(warp.index);
  }
  History& history(const Warp& warp) { return histories_[place_of(warp)]; }
  static void tick(History& own) { own.knowledge.clock.set(own.agent, own.knowledge.clock.at(own.agent) + 1); }

  std::uint32_t warps_ = 1;            ///< warps per block
  std::vector<std::uint32_t> blocks_;  ///< numbers in the grid of the cluster's blocks
  std::vector<History> histories_;     ///< one per warp of the cluster
  std::unordered_map<std::uint64_t, Knowledge> barriers_;
  std::unordered_map<const std::byte*, Mbarrier> mbarriers_;
  Agent next_copier_ = kFirstCopier;
};

}  // namespace cubit::runtime::cpu
