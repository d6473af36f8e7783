// The rules of memory that a kernel can break without anybody noticing: reading memory that nobody wrote, races
// between warps in shared and in global memory, and bulk copies that nothing orders after the writes they read.
//
// A race is two accesses of a word by different warps, at least one of them a write and at least one of them weak, that
// nothing orders: no barrier, no asynchronous copy that was waited for, no release that was acquired. What the warps of
// this launch happened to do first does not matter. PTX ISA, "Memory Consistency Model".
//
// What it does not see: lanes of one warp are not told apart. Order is kept by address: a flag must be read in the size
// in which it is written. mbarrier objects are not watched themselves, and an arrival that follows cp.async publishes
// what its warp knows when the copies land. Copies and reductions in bulk to global memory are written when they are
// waited for; the proxies are checked in shared memory only, and every fence.proxy counts as one of all. Scopes are the
// block and the device. ld.global.nc is taken for an ordinary load. Each launch begins with everything before it known.
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

  void start(const Cluster& cluster);  ///< its shared memory is nobody's yet
  void request(Warp& warp, const Request& request);
  void fence(const Warp& warp, const Site& site);

  /// The end of a cp.async, whose start was a request of kind `copy`: its lane has waited for it.
  void land_copy(const Warp& warp, int lane, std::uint64_t dst, int bytes);
  /// The same of one of kind `bulk_copy`, which those see who see the phase of `object` end.
  void land_bulk(std::uint64_t dst, std::uint64_t bytes, const std::byte* object);
  /// The end of a request of kind `bulk_read`: its shared memory may be written again.
  void end_reading(const Warp& warp, std::uint64_t src, std::uint64_t bytes);

  HappensBefore order;

 private:
  std::uint32_t site_index(const Site& site) const;
  Touch touch(const Warp& warp, const Request& request, int lane) const;
  Shadow& shadow(ptx::Space space) { return space == ptx::Space::shared ? shared_ : global_; }

  void lane_request(Warp& warp, const Request& request, const LaneRequest& lane);
  bool word_request(Warp& warp, const Request& request, const LaneRequest& lane, std::uint64_t address, Touch now);
  std::string broken_rule(const Warp& warp, const Request& request, const LaneRequest& lane, std::uint64_t address,
                          const Touch& now);
  static bool is_written(const Warp& warp, std::uint64_t address, std::uint8_t mask);
  static void mark_written(const Warp& warp, std::uint64_t address, std::uint8_t mask);
  std::string name_of(const Warp& warp, const Touch& touch) const;

  using PublishedByAddress = std::unordered_map<std::uint64_t, HappensBefore::Published>;

  const Program& program_;
  std::vector<Order> orders_;  ///< by site
  Shadow shared_;
  Shadow global_;
  PublishedByAddress shared_published_;
  PublishedByAddress global_published_;
};

}  // namespace cubit::runtime::cpu
