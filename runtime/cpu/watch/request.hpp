// One memory instruction of a warp as the watchers see it: where each lane goes.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/cpu/execute/frame.hpp"

namespace cubit::runtime::cpu {

/// A copy is a cp.async's write; bulk_copy and bulk_read are what a copy in bulk writes and reads. The last three are
/// what is done to an mbarrier: mbarrier.init, mbarrier.inval, and everything else.
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
  std::uint64_t address;  ///< host address; of shared memory rank << kRankShift | offset
};

struct Request {
  const Site* site = nullptr;
  RequestKind kind = RequestKind::read;
  std::uint64_t bytes = 0;  ///< per lane
  bool is_matrix = false;   ///< ldmatrix, stmatrix: a lane's address is that of a row
  int count = 0;
  std::array<LaneRequest, kLanes> lanes{};

  void add(LaneRequest lane) { lanes[static_cast<std::size_t>(count++)] = lane; }
};

}  // namespace cubit::runtime::cpu
