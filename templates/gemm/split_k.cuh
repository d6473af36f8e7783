// Work split of a GEMM: which stages of k a block takes, and how the partial sums of its splits become one.
//
// Split-K: a tile's stages are dealt out evenly to `splits` blocks. Stream-K: all tiles' stages stand in a row and are
// dealt out evenly, so that a block may end one tile and begin another; which blocks a tile has follows by arithmetic.
// Every warp of a part stores its sums; the one that is last at their counter reads all of them in order of their part,
// so the result does not depend on who was last, and sets the counter back to zero.
//
// Only where a launch asks for it are sums added in the order in which they come, see begin_atomic_sums: the first of the
// warps that have the same columns stores its own, so that the place need not be zero before; the others wait for that,
// then add theirs by atomics; the last one reads a single sum, whose bits differ from run to run.
//
// PTX ISA, "Memory Consistency Model": bar.warp.sync orders a warp's stores before its atom.acq_rel, whose observation
// by the last warp orders them before that warp's loads: those of the other lanes by another bar.warp.sync.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "kernels/w4a16_gemm_arguments.h"

namespace cubit {

/// Stages of one tile, and which part they are of it.
struct WorkTile {
  int row_tile;
  int column_tile;
  int first;  // stage
  int last;   // one past
  int split;
  int splits;  // 1: all of k
};

/// Part `part` of a tile whose stages are dealt out evenly to `splits` parts: the first stages % splits have one more.
__device__ __forceinline__ WorkTile work_tile_of(const W4a16GemmArguments& args, int row_tile, int column_tile,
                                                 int split) {
  const int least = args.split_stages;
  const int extra = args.stages - least * args.splits;
  const int first = split * least + min(split, extra);
  return {row_tile, column_tile, first, first + least + (split < extra ? 1 : 0), split, args.splits};
}

/// The part that a block of a grid (row tiles, column tiles, splits) has.
__device__ __forceinline__ WorkTile work_tile_of_block(const W4a16GemmArguments& args) {
  return work_tile_of(args, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z));
}

/// What a block computes: one piece, or, of even shares of all tiles' stages, one after another.
class TileScheduler {
 public:
  __device__ __forceinline__ explicit TileScheduler(const W4a16GemmArguments& args) : args_(args) {
    if (args.share == 0) return;
    const int block = static_cast<int>(blockIdx.x);
    next_ = block * args.share + min(block, args.larger);
    end_ = next_ + args.share + (block < args.larger ? 1 : 0);
  }

  /// Whether a block adds up the parts of its tiles itself, see BatchInvariantScheduler.
  static __device__ __forceinline__ constexpr bool computes_whole_tiles() { return false; }
  static constexpr bool kHasAtomics = false;  // see AtomicSplitKScheduler
  __device__ __forceinline__ WorkTile first() { return args_.share == 0 ? work_tile_of_block(args_) : take(); }
  /// False where there is none left.
  __device__ __forceinline__ bool next(WorkTile& work_tile) {
    if (next_ >= end_) return false;
    work_tile = take();
    return true;
  }

 private:
  __device__ __forceinline__ WorkTile take() {
    const int tile = next_ / args_.stages;
    const int start = tile * args_.stages;
    const int first = next_ - start;
    const int last = min(args_.stages, end_ - start);
    const int owner = owner_of(start);
    next_ = start + last;
    return {tile % args_.row_tiles,
            tile / args_.row_tiles,
            first,
            last,
            static_cast<int>(blockIdx.x) - owner,
            owner_of(start + args_.stages - 1) - owner + 1};
  }

  __device__ __forceinline__ int owner_of(int stage) const {
    const int of_larger = args_.larger * (args_.share + 1);
    return stage < of_larger ? stage / (args_.share + 1) : args_.larger + (stage - of_larger) / args_.share;
  }

  const W4a16GemmArguments& args_;
  int next_ = 0;  // of all tiles' stages
  int end_ = 0;
};

/// The same, of launches that may ask for sums in the order in which they come.
class AtomicSplitKScheduler : public TileScheduler {
 public:
  using TileScheduler::TileScheduler;
  static constexpr bool kHasAtomics = true;
};

/// Called by all lanes after their stores. True in all lanes of the warp that arrives last; the counter is then zero
/// again, and what the others stored can be read. Each counts as kStep, below which the counter has something else.
template <uint32 kStep = 1>
__device__ __forceinline__ bool last_warp(uint32* counter, int arrivals) {
  __syncwarp();
  uint32 before = 0;
  if (lane_index() == 0) {
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "n"(kStep) : "memory");
    if (before / kStep == static_cast<uint32>(arrivals) - 1) *counter = 0;
  }
  before = __shfl_sync(kFullWarp, before, 0);
  __syncwarp();
  return before / kStep == static_cast<uint32>(arrivals) - 1;
}

/// Where nothing is left to do. Said outright, because ptxas spilled for a wait in begin_atomic_sums that another piece of the
/// block might follow.
[[noreturn]] __device__ __forceinline__ void end_thread() {
  asm volatile("exit;");
  __builtin_unreachable();
}

/// A float that other blocks have stored or added to: past the L1, as load_other_blocks.
__device__ __forceinline__ float load_sum_of_blocks(const char* src) {
  float value;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(src) : "memory");
  return value;
}

__device__ __forceinline__ void store_or_add(const char* dst, float value, bool stores) {
  if (stores) {
    asm volatile("st.global.f32 [%0], %1;" ::"l"(dst), "f"(value) : "memory");
  } else {
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(dst), "f"(value) : "memory");
  }
}

/// Of a counter of sums that are added in any order: the low half counts warps that have begun, the high half those
/// that are done.
constexpr uint32 kDone = 1u << 16;

/// Called by all lanes before they store or add. True in all lanes of the warp that is first, which stores; in the
/// others it has done so, and they add. Nobody who waits can keep it from that: it has begun.
__device__ __forceinline__ bool begin_atomic_sums(uint32* counter) {
  uint32 before = 0;
  if (lane_index() == 0) {
    asm volatile("atom.acquire.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    for (uint32 now = before; before != 0 && now < kDone;)
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  }
  before = __shfl_sync(kFullWarp, before, 0);
  __syncwarp();
  return before == 0;
}

/// sums += parts 0 … count - 1, in order, which are kSplitBytes apart from `src` on. Of each, item j is sums[j / 2][j %
/// 2] of a warp, 16 bytes of every lane; the loads of kAtOnce parts are in flight together. Lanes load nothing of the
/// sums i that `has_rows(i)` says no to.
template <int kAtOnce, int kSplitBytes, int kSums, class HasRows>
__device__ __forceinline__ void add_splits(float (&sums)[kSums][2][4], const char* src, int count, HasRows&& has_rows) {
  constexpr int kItems = 2 * kSums;
#pragma unroll 1
  for (int left = count; left > 0; left -= kAtOnce) {
    float4 partials[kAtOnce][kItems];
#pragma unroll
    for (int i = 0; i < kAtOnce * kItems; ++i) {
      const int split = i / kItems;
      const int item = i % kItems;
      partials[split][item] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (split < left && has_rows(item / 2))
        partials[split][item] = load_other_blocks(src + split * kSplitBytes + 16 * kWarpSize * item);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce * kItems; ++i) {
      float(&sum)[4] = sums[i % kItems / 2][i % 2];
      sum[0] += partials[i / kItems][i % kItems].x;
      sum[1] += partials[i / kItems][i % kItems].y;
      sum[2] += partials[i / kItems][i % kItems].z;
      sum[3] += partials[i / kItems][i % kItems].w;
    }
    src = settled(src + kAtOnce * kSplitBytes);
  }
}

}  // namespace cubit
