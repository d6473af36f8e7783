// What a launch does, counted: instructions by kind, barriers, and for every memory instruction how its requests met
// the banks of shared memory and the sectors of global memory.
//
// The rules are the hardware's as NVIDIA's tools count them: shared memory has 32 banks of 4 bytes and serves 32 lanes
// at once where each takes up to 4 bytes, 16 of 8 bytes, 8 of 16 bytes or of a matrix's rows; lanes that read one word
// share it. Global memory moves sectors of 32 bytes. Bulk copies are counted as
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
  void segment(int index) { ++segments_[static_cast<std::size_t>(index)]; }  ///< a warp has executed it
  void start(const Cluster& cluster);
  void add(const Counters& other);

  /// {kernel, blocks, warps, instructions: {"ld.global": n, …}, barriers, shared: [{opcode, ptx_line, places:
  /// ["file:line", …, outermost last], requests, wavefronts, ideal_wavefronts}], global: [{…, requests, sectors,
  /// ideal_sectors}]}. Instructions are counted per warp that comes past, also where their guard is false.
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
