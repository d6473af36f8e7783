// Tile schedulers of a GEMM, and the device-wide merge of split-K partial sums: which range of k a block computes, and
// how partial sums become one sum.
//
// Schedules:
// - Split-K: the pipeline stages of each tile are divided evenly among `splits` blocks.
// - Stream-K (balanced schedule): the stages of all tiles form one sequence, which is divided evenly among the blocks.
//   A block may therefore finish one tile and begin another. Arithmetic alone tells which blocks share a tile.
//
// Merge: every warp stores its partial sums and arrives at a counter. The last warp to arrive reads the partial sums of
// all slices in the order of the slices, so the result does not depend on which warp is last. That warp also sets the
// counter back to zero.
//
// Atomic merge, only if the launch requests it: partial sums are added in order of arrival (begin_atomic_sums). Among
// the warps with the same columns, the first warp stores its sums, so the workspace need not be zeroed. The other warps
// wait for this store and then add their sums by atomics. The last warp reads a single sum, whose bits differ from run
// to run.
//
// PTX ISA, "Memory Consistency Model": bar.warp.sync orders the stores of a warp before the atom.acq_rel of one of its
// lanes. The last warp observes that atom, which orders the stores before the last warp's loads. The loads of its other
// lanes are ordered by another bar.warp.sync.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "kernels/gemm_arguments.h"

namespace cubit {

/// Unit of work: one output tile and the range of its pipeline stages (a split-K slice) that a block computes.
struct WorkTile {
  int row_tile;
  int column_tile;
  int first;   // first stage
  int last;    // one past the last stage
  int split;   // index of the slice among the tile's slices
  int splits;  // number of slices; 1 if the block computes all of k
};

/// Work tile of slice `split`. The stages of a tile are divided evenly among `splits` slices; if the division leaves a
/// remainder r, each of the first r slices has one more stage.
__device__ __forceinline__ WorkTile work_tile_of(const GemmArguments& args, int row_tile, int column_tile, int split) {
  const int least = args.split_stages;
  const int extra = args.stages - least * args.splits;
  const int first = split * least + min(split, extra);
  return {row_tile, column_tile, first, first + least + (split < extra ? 1 : 0), split, args.splits};
}

/// Work tile of this block in a grid of (row tiles, column tiles, splits).
__device__ __forceinline__ WorkTile work_tile_of_block(const GemmArguments& args) {
  return work_tile_of(args, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z));
}

/// Enumerates the work tiles of a block: a single slice with split-K, or several tiles in succession with stream-K.
/// With stream-K (args.share > 0), block b takes args.share consecutive stages of the sequence, and one more if b is
/// below args.larger. A slice of a tile is then the part of the tile's stages that one block takes.
class TileScheduler {
 public:
  __device__ __forceinline__ explicit TileScheduler(const GemmArguments& args) : args_(args) {
    if (args.share == 0) return;
    const int block = static_cast<int>(blockIdx.x);
    next_ = block * args.share + min(block, args.larger);
    end_ = next_ + args.share + (block < args.larger ? 1 : 0);
  }

  /// Returns true if one block computes all slices of its tiles and adds them itself; see BatchInvariantScheduler.
  static __device__ __forceinline__ constexpr bool computes_whole_tiles() { return false; }
  static constexpr bool kHasAtomics = false;  // true in AtomicSplitKScheduler
  __device__ __forceinline__ WorkTile first() { return args_.share == 0 ? work_tile_of_block(args_) : take(); }
  /// Advances to the block's next work tile. Returns false if there is none.
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

  /// Block that takes stage `stage` of the sequence.
  __device__ __forceinline__ int owner_of(int stage) const {
    const int of_larger = args_.larger * (args_.share + 1);
    return stage < of_larger ? stage / (args_.share + 1) : args_.larger + (stage - of_larger) / args_.share;
  }

  const GemmArguments& args_;
  int next_ = 0;  // index in the sequence of all stages of all tiles
  int end_ = 0;
};

/// TileScheduler for launches that may request the atomic merge.
class AtomicSplitKScheduler : public TileScheduler {
 public:
  using TileScheduler::TileScheduler;
  static constexpr bool kHasAtomics = true;
};

/// Arrives at a counter; all lanes of a warp call the function after their stores. Returns true in all lanes of the
/// warp that arrives last. The counter is then zero again, and the stores of the other warps are visible. Each arrival
/// adds kStep; a caller uses a kStep above 1 if the low bits of the counter hold another count.
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

/// Ends the thread. The explicit exit tells ptxas that no further work tile follows the wait in begin_atomic_sums;
/// without it ptxas spilled registers.
[[noreturn]] __device__ __forceinline__ void end_thread() {
  asm volatile("exit;");
  __builtin_unreachable();
}

/// Loads a float that other blocks have stored or added to. The load bypasses the L1, as load_other_blocks does.
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

/// Layout of an atomic-merge counter: the low half counts warps that have begun, and the high half counts warps that
/// are done.
constexpr uint32 kDone = 1u << 16;

/// Begins an atomic merge; all lanes of a warp call the function before they store or add. Returns true in all lanes of
/// the first warp, which then stores its sums. All other warps wait until the first warp has stored, and then add. The
/// wait cannot deadlock, because the first warp is already running and waits for no other warp.
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

/// sums += the partial sums of slices 0 … count - 1, in this order. `src` is the lane's address in slice 0, and the
/// slices are kSplitBytes apart. In each slice, item j is sums[j / 2][j % 2] of a warp, with 16 bytes per lane. The
/// loads of kAtOnce slices are in flight together. Lanes load nothing for sums[i] if `has_rows(i)` is false.
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
