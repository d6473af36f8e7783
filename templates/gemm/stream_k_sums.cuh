// Partial sums of stream-K in the persistent GEMM, which clusters hand on through the workspace.
//
// A cluster that does not own a tile stores its sums in its own place, of which it needs one: see grouped_tiles.cuh.
// The cluster that owns the tile adds them. Warps hand sums to the warps of the same index, in the block of the same
// rank, so that each warp has a flag of its own: 0, or 1 when its sums are stored. The reading warp sets the flag back
// to 0 before it reads, because a flag is used once per launch.
//
// PTX ISA, "Memory Consistency Model": bar.warp.sync orders the stores of a warp before the st.release of one of its
// lanes. The reading warp observes the flag by ld.acquire, and bar.warp.sync orders the loads of its other lanes.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/partial_sums.cuh"
#include "gemm/persistent_gemm_lanes.h"
#include "kernels/gemm/persistent_gemm_arguments.h"

namespace cubit {

/// Partial sums of one warp in the place of cluster `cluster`, of type float or int. kBlocks: blocks of 8 tokens of a
/// tile.
template <class Sum, int kBlocks>
class PartialSums {
  static constexpr int kBlockBytes = persistent_lanes::kConsumerWarps * kWarpSize * 16;

 public:
  __device__ __forceinline__ PartialSums(const PersistentGemmArguments& args, int cluster, int rank) {
    const int block = 2 * cluster + rank;
    const int warp = warp_index();
    flag_ = args.flags + block * persistent_lanes::kConsumerWarps + warp;
    sums_ = reinterpret_cast<char*>(args.partials) + static_cast<int64>(block) * kBlocks * kBlockBytes +
            (warp * kWarpSize + lane_index()) * 16;
  }

  __device__ __forceinline__ void store(const Sum (&sums)[kBlocks][4]) const {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) *reinterpret_cast<float4*>(sums_ + i * kBlockBytes) = pack_sums(sums[i]);
    __syncwarp();
    if (lane_index() == 0) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag_), "r"(1) : "memory");
  }

  /// Waits until the other cluster has stored its sums, and adds them.
  __device__ __forceinline__ void add_to(Sum (&sums)[kBlocks][4]) const {
    if (lane_index() == 0) {
      uint32 is_stored = 0;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(is_stored) : "l"(flag_) : "memory");
      } while (is_stored == 0);
      *flag_ = 0;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) add_sums(sums[i], load_other_blocks(sums_ + i * kBlockBytes));
  }

 private:
  uint32* flag_;
  char* sums_;  ///< of this lane
};

}  // namespace cubit
