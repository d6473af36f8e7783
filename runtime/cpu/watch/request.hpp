// Request: one memory instruction of a warp, with the address of each lane, as input of the checker and the counters.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/cpu/execute/frame.hpp"

namespace cubit::runtime::cpu {

/// `copy` is the write of a cp.async. `bulk_copy` and `bulk_read` are the write and the read of a bulk copy. The last
/// three kinds are accesses to mbarriers: mbarrier.init, mbarrier.inval, and all other mbarrier operations.
enum class RequestKind : std::uint8_t {
  read,
  write,
  atomic,
  copy,
  bulk_copy,
  bulk_read,
  mbarrier_init,
  mbarrier_inval,
  mbarrier_use,
};

struct LaneRequest {
  int lane;
  ptx::Space space;
  std::uint64_t address;  ///< host address; for shared memory rank << kRankShift | offset
};

struct Request {
  const Site* site = nullptr;
  RequestKind kind = RequestKind::read;
  std::uint64_t bytes = 0;  ///< bytes per lane
  bool is_matrix = false;   ///< ldmatrix or stmatrix: a lane's address is the address of a matrix row
  int count = 0;
  std::array<LaneRequest, kLanes> lanes{};

  void add(LaneRequest lane) { lanes[static_cast<std::size_t>(count++)] = lane; }
};

}  // namespace cubit::runtime::cpu
