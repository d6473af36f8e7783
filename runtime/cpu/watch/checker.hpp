// Checks a kernel's memory accesses for errors that would otherwise pass unnoticed: reads of memory that nothing wrote,
// races between warps in shared and in global memory, bulk copies that are not ordered after the writes of their
// source, and uses of mbarriers that were not initialised.
//
// A race is two accesses of a word by different warps that nothing orders, where at least one access is a write and at
// least one is weak. Accesses are ordered by a barrier, by an asynchronous copy that was waited for, or by a release
// that was acquired. The order in which this launch happened to execute the accesses does not matter. Strong accesses
// count as weak if they overlap only in part, or if the scope of one does not include the other's thread. A warp that
// has ended takes part in no barrier and publishes nothing. PTX ISA, "Memory Consistency Model".
//
// Limits of the checker:
//   - Lanes of one warp are not distinguished.
//   - All fences acquire and release.
//   - If several bulk copies read or add to one place, or several cp.async of a warp write it, checking of the place
//     ends when the first operation lands.
//   - Memory that ld.global.nc reads must not have been written before. A write after the read is found as a race.
//   - The proxy of constant memory is not checked, and neither are tensor maps themselves.
//   - At the start of each launch, all earlier accesses are ordered before it.
//   - wgmma reads its shared memory when it is executed and again when its group is waited for, so that writes in
//     between are found. Each warp of a warpgroup reads all of both matrices.
//   - Changes of A's registers before the wait are not found, because PTX has an unlimited number of registers.
//
// A checked launch runs on one host thread.
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
  Checker(const Checker&) = delete;  ///< the shadows refer to `order`
  Checker& operator=(const Checker&) = delete;

  void start(const Cluster& cluster);  ///< starts a cluster, whose shared memory has not been accessed
  void request(Warp& warp, const Request& request);
  void fence(const Warp& warp, const Site& site);

  /// Ends a request of kind `copy` or `bulk_copy` of this warp.
  void land(const Warp& warp, ptx::Space space, std::uint64_t dst, std::uint64_t bytes, HappensBefore::Moment now);
  /// Ends a request of kind `bulk_read` of this warp. The memory may be written again.
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
  std::vector<Order> orders_;  ///< indexed by site
  Shadow shared_{order};
  Shadow global_{order};
  PublishedByAddress shared_published_;
  PublishedByAddress global_published_;
};

}  // namespace cubit::runtime::cpu
