// The rules of memory that a kernel can break without anybody noticing: reading shared memory that nobody wrote, and
// races between warps, in shared and in global memory.
//
// A race is two accesses of a word by different warps, at least one of them a write and at least one of them weak, that
// nothing orders: no barrier, no asynchronous copy that was waited for, no release that was acquired. Order is kept in
// vector clocks; what the warps of one launch happen to do first does not matter. PTX ISA, "Memory Consistency Model".
//
// Lanes of one warp are not told apart. A checked launch runs on one thread of the host.
#pragma once

#include <unordered_map>
#include <vector>

#include "runtime/cpu/program.hpp"
#include "runtime/cpu/watch/request.hpp"
#include "runtime/cpu/watch/shadow.hpp"

namespace cubit::runtime::cpu {

class Checker {
 public:
  explicit Checker(const Program& program);

  void start(const Cluster& cluster);  ///< its shared memory is nobody's yet

  void request(Warp& warp, const Request& request);
  void fence(Warp& warp, const Site& site);
  /// At a barrier of any kind: what a warp has done is known to those who pass after it has arrived. A barrier that is
  /// used again is another one, or has been forgotten.
  void arrive(const Warp& warp, std::uint64_t barrier);
  void pass(const Warp& warp, std::uint64_t barrier);
  void forget(std::uint64_t barrier) { barriers_.erase(barrier); }
  static std::uint64_t block_barrier(const Cta& cta, std::size_t index) {
    return std::uint64_t{cta.rank} << kRankShift | index;
  }
  static std::uint64_t cluster_barrier(std::uint32_t generation) { return std::uint64_t{1} << 32 | generation; }
  /// A copy into shared memory that a request of kind `copy` has started.
  void land_copy(Warp& warp, int lane, std::uint64_t dst, int bytes);

 private:
  /// How far an ordering instruction reaches: to the block, or to the device.
  enum Scope : std::uint8_t { kBlock, kDevice, kScopes };
  struct Order {
    bool is_strong = false;
    bool acquires = false;
    bool releases = false;
    Scope scope = kDevice;
  };
  /// What a warp knows.
  struct History {
    Agent agent = kNobody;
    Clock clock;
    std::array<Clock, kScopes> fenced;  ///< what a strong write of it publishes
    std::array<Clock, kScopes> seen;    ///< what its strong reads have found: known after the next fence
  };
  /// What strong writes have left at an address.
  using Published = std::array<Clock, kScopes>;

  static Order order_of(const ptx::Instruction& instruction);
  std::size_t place_of(const Warp& warp) const {
    return warp.cta->rank * warps_ + static_cast<std::size_t>(warp.index);
  }
  History& history(const Warp& warp) { return histories_[place_of(warp)]; }
  std::uint32_t site_index(const Site& site) const;
  Touch touch(const Warp& warp, const Site& site, int lane) const;

  void lane_request(Warp& warp, const Request& request, const LaneRequest& lane);
  bool word_request(Warp& warp, const Request& request, const LaneRequest& lane, std::uint64_t word, Touch now);
  void acquire(Warp& warp, const Order& order, const Published& published);
  void release(Warp& warp, const Order& order, Published& published, bool keeps);
  void tick(History& history);
  bool report_unwritten(Warp& warp, const Request& request, const LaneRequest& lane, const Word& word, const Touch& now,
                        std::uint64_t address);
  void report_race(Warp& warp, const Site& site, const LaneRequest& lane, const Touch& now, const Touch& earlier);
  std::string name_of(const Warp& warp, const Touch& touch) const;

  const Program& program_;
  std::vector<Order> orders_;       ///< by site
  std::size_t warps_ = 1;           ///< of a block
  std::vector<History> histories_;  ///< of the cluster's warps
  std::unordered_map<std::uint64_t, Clock> barriers_;
  Shadow shared_;
  Shadow global_;
  std::unordered_map<std::uint64_t, Published> shared_published_;
  std::unordered_map<std::uint64_t, Published> global_published_;
};

}  // namespace cubit::runtime::cpu
