// Counts what a launch does: instructions by kind, barriers, and for every memory instruction its bank conflicts in
// shared memory and its sectors in global memory.
//
// The rules are those of the hardware, as NVIDIA's tools count them. Shared memory has 32 banks of 4 bytes. It serves
// 32 lanes at once for up to 4 bytes per lane, 16 lanes for 8 bytes, and 8 lanes for 16 bytes or for matrix rows. Lanes
// that read the same word share one access. Global memory transfers sectors of 32 bytes. Bulk copies are counted as
// instructions only, and atomics on one word of shared memory as one wavefront.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cpu/program.hpp"
#include "runtime/cpu/watch/request.hpp"

namespace cubit::runtime::cpu {

class Counters {
 public:
  explicit Counters(const Program& program);

  void request(const Request& request);
  void segment(int index) {
    ++segments_[static_cast<std::size_t>(index)];
  }  ///< counts one execution of the segment by
     ///< a warp
  void start(const Cluster& cluster);
  void add(const Counters& other);

  /// Returns {kernel, blocks, warps, instructions: {"ld.global": n, …}, barriers, shared: [{opcode, ptx_line, places:
  /// ["file:line", …, outermost last], requests, wavefronts, ideal_wavefronts}], global: [{…, requests, sectors,
  /// ideal_sectors}]}. An instruction counts once per warp that reaches it, even if its guard is false.
  std::string json() const;

 private:
  struct SiteCount {
    std::uint64_t requests = 0;
    std::uint64_t transfers = 0;  ///< wavefronts or sectors
    std::uint64_t ideal = 0;
  };

  const Program& program_;
  std::vector<std::uint64_t> segments_;
  std::vector<SiteCount> shared_;
  std::vector<SiteCount> global_;
  std::uint64_t blocks_ = 0;
  std::uint64_t warps_ = 0;
};

}  // namespace cubit::runtime::cpu
