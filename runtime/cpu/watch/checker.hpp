// The rules of memory that a kernel can break without anybody noticing: reading memory that nobody wrote, races
// between warps in shared and in global memory, bulk copies that nothing orders after the writes they read, and
// mbarriers that are none.
//
// A race is two accesses of a word by different warps, at least one of them a write and at least one of them weak, that
// nothing orders: no barrier, no asynchronous copy that was waited for, no release that was acquired. What the warps of
// this launch happened to do first does not matter. Strong accesses that overlap in part, or of which one's scope does
// not hold the other's thread, count as weak. A warp that has ended takes part in no barrier, and tells nobody
// anything. PTX ISA, "Memory Consistency Model".
//
// What it does not see: lanes of one warp are not told apart. Fences of all kinds acquire and release. Of several
// copies in bulk that read or add to one place, or of several cp.async of a warp, the first that lands ends the watch
// over the place. What ld.global.nc reads must not have been written before; that it is not written after is a race's
// matter. Constant memory has a proxy that is not watched, and so have tensor maps themselves. Each launch begins with
// everything before it known. wgmma reads its shared memory when it is executed and once more where its group is waited
// for, so that what is written in between shows; each warp of a warpgroup reads all of both matrices. Registers of A
// that change before the wait are not found: PTX has as many registers as it likes.
//
// A checked launch runs on one thread of the host.
#pragma once

#include <unordered_map>
#include <vector>

#include "runtime/cpu/program.hpp"
#include "runtime/cpu/watch/happens_before.hpp"
#include "runtime/cpu/watch/request.hpp"
#include "runtime/cpu/watch/shadow.hpp"

namespace cubit::runtime::cpu {

class Checker {
 public:
  explicit Checker(const Program& program);
  Checker(const Checker&) = delete;  ///< its shadows refer to `order`
  Checker& operator=(const Checker&) = delete;

  void start(const Cluster& cluster);  ///< its shared memory is nobody's yet
  void request(Warp& warp, const Request& request);
  void fence(const Warp& warp, const Site& site);

  /// The end of a request of kind `copy` or `bulk_copy` of this warp.
  void land(const Warp& warp, ptx::Space space, std::uint64_t dst, std::uint64_t bytes, HappensBefore::Moment now);
  /// The end of a request of kind `bulk_read` of this warp: the memory may be written again.
  void end_reading(const Warp& warp, ptx::Space space, std::uint64_t src, std::uint64_t bytes,
                   HappensBefore::Moment now);

  HappensBefore order;

 private:
  std::uint32_t site_index(const Site& site) const;
  Touch touch(const Warp& warp, const Request& request, const LaneRequest& lane) const;
  Shadow& shadow(ptx::Space space) { return space == ptx::Space::shared ? shared_ : global_; }

  void lane_request(Warp& warp, const Request& request, const LaneRequest& lane);
  bool word_request(Warp& warp, const Request& request, const LaneRequest& lane, std::uint64_t address, Touch now);
  std::string broken_rule(const Warp& warp, const Request& request, const LaneRequest& lane, std::uint64_t address,
                          const Touch& now);
  std::string broken_mbarrier_rule(const Request& request, const LaneRequest& lane, const Word& word) const;
  std::string broken_copy_rule(const Warp& warp, const Request& request, const LaneRequest& lane, std::uint64_t address,
                               const Touch& now);
  static bool is_written(const Warp& warp, std::uint64_t address, std::uint8_t mask);
  static void mark_written(const Warp& warp, std::uint64_t address, std::uint8_t mask);
  std::string name_of(const Warp& warp, const Touch& touch) const;

  using PublishedByAddress = std::unordered_map<std::uint64_t, HappensBefore::Published>;

  const Program& program_;
  std::vector<Order> orders_;  ///< by site
  Shadow shared_{order};
  Shadow global_{order};
  PublishedByAddress shared_published_;
  PublishedByAddress global_published_;
};

}  // namespace cubit::runtime::cpu
