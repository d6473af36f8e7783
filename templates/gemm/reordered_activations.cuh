// Activations in the order that words want (w4_copied_words.cuh), put there once per launch, in the workspace, by all
// of its blocks: family sm90, where a tile has so many rows that each block's putting its own in order costs more. Of
// its first stages a block puts them in order itself, so that it need not wait until all have done their part.
//
// Chunks are 64 k's of 64 rows, those of the same k's one after another; a slice is some of them that follow each
// other, one or more. Block b takes slice b; who has waited long takes slices that nobody has begun. So nobody waits
// for a block that has not begun, and every slice is stored once. The workspace has a word for each slice, which says
// whether somebody has taken it, and behind them how many are done, and how many blocks know that all are: the last of
// these sets everything back to zero.
//
// PTX ISA, "Memory Consistency Model": a barrier of the block orders its stores before red.release, whose observation
// by another block's ld.acquire orders them before what that does next; and "Proxies": copies by tensor maps want
// fence.proxy.async in between.
#pragma once

#include "plan.cuh"

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/w4a16_gemm_block.cuh"
#include "gemm/w4a16_gemm_lanes.h"
#include "kernels/w4a16_gemm_arguments.h"

namespace cubit {

/// A block's part in it; without `kExists` all of it does nothing.
template <class CopiedWords, bool kExists>
class ReorderedActivations {
 public:
  explicit __device__ __forceinline__ ReorderedActivations(const W4a16GemmArguments& args) : args_(args) {}

  /// By all warps that multiply: the block's own slice.
  __device__ __forceinline__ void reorder_own() const {
    const int slice = block_index();
    if (slice < args_.slices) {
      reorder<kThreads>(slice, static_cast<int>(thread_index()), [] { return vote_taken(false); });
    } else {
      vote_taken(false);
    }
    asm volatile("bar.arrive %0, %1;" ::"n"(kStoredBarrier), "n"(kThreads + kWarpSize) : "memory");
  }

  /// By the warp that copies, the first it does: takes the block's slice, if it has one that nobody else has taken.
  __device__ __forceinline__ void take_own() {
    const int slice = block_index();
    has_taken_ = lane_index() == 0 && slice < args_.slices && take(slice);
  }

  /// By the same: until everything is in order.
  __device__ __forceinline__ void wait() {
    constexpr int kPatience = 64;  // looks, of most of a microsecond each
    if (has_waited_) return;
    has_waited_ = true;
    vote_taken(has_taken_);
    asm volatile("bar.sync %0, %1;" ::"n"(kStoredBarrier), "n"(kThreads + kWarpSize) : "memory");
    if (has_taken_) count_done();
    int polls = 0;
#pragma unroll 1
    while (!all_done()) {
      if (++polls % kPatience == 0) reorder_remaining();
    }
    __syncwarp();
    fence_async_proxy_everywhere();
  }

  /// By the same, in the end: the last of all blocks sets the workspace's words back to zero.
  __device__ __forceinline__ void leave() {
    wait();
    uint32 before = 0;
    if (lane_index() == 0)
      asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(departed()) : "memory");
    before = __shfl_sync(kFullWarp, before, 0);
    __syncwarp();
    if (before != gridDim.x * gridDim.y * gridDim.z - 1) return;
#pragma unroll 1
    for (int i = lane_index(); i < args_.slices + 2; i += kWarpSize) args_.slice_states[i] = 0;
  }

 private:
  static constexpr int kChunkLanes = 8;
  static constexpr int kThreads = plan::kWarps * kWarpSize;
  // Of those that multiply and the one that copies; 0 and 1 are __syncthreads' and sync_warps'.
  static constexpr int kTakenBarrier = 2;
  static constexpr int kStoredBarrier = 3;

  /// Behind a word for each slice, not zero when somebody has taken it.
  __device__ __forceinline__ uint32* done() const { return args_.slice_states + args_.slices; }
  __device__ __forceinline__ uint32* departed() const { return done() + 1; }

  static __device__ __forceinline__ int block_index() {
    return static_cast<int>((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
  }

  /// By all warps that multiply and the one that copies: whether one of their threads has taken the block's slice.
  static __device__ __forceinline__ bool vote_taken(bool has_taken) {
    uint32 any;
    asm volatile(
        "{\n"
        ".reg .pred own, any;\n"
        "setp.ne.u32 own, %1, 0;\n"
        "bar.red.or.pred any, %2, %3, own;\n"
        "selp.u32 %0, 1, 0, any;\n"
        "}"
        : "=r"(any)
        : "r"(has_taken ? 1u : 0u), "n"(kTakenBarrier), "n"(kThreads + kWarpSize)
        : "memory");
    return any != 0;
  }

  /// By one thread, whether the slice is its block's.
  __device__ __forceinline__ bool take(int slice) const {
    uint32 before;
    asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(args_.slice_states + slice)
                 : "memory");
    return before == 0;
  }

  /// By one thread, behind a barrier of those that stored a slice.
  __device__ __forceinline__ void count_done() const {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(done()) : "memory");
  }

  __device__ __forceinline__ bool all_done() const {
    uint32 count = 0;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(done()) : "memory");
    return __all_sync(kFullWarp, static_cast<int>(count) >= args_.slices);
  }

  /// By one warp: what nobody has begun.
  __device__ __forceinline__ void reorder_remaining() const {
#pragma unroll 1
    for (int first = 0; first < args_.slices && !all_done(); first += kWarpSize) {
      const int own = first + lane_index();
      uint32 state = 1;
      if (own < args_.slices)
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(state) : "l"(args_.slice_states + own) : "memory");
#pragma unroll 1
      for (uint32 free = __ballot_sync(kFullWarp, state == 0); free != 0; free &= free - 1)
        reorder_if_free(first + __ffs(static_cast<int>(free)) - 1);
    }
  }
  __device__ __forceinline__ void reorder_if_free(int slice) const {
    const uint32 is_taken = __shfl_sync(kFullWarp, lane_index() == 0 && take(slice) ? 1u : 0u, 0);
    if (is_taken == 0) return;
    reorder<kWarpSize>(slice, lane_index(), [] { return true; });
    __syncwarp();
    if (lane_index() == 0) count_done();
  }

  /// Eight k's of a row, or zeros.
  __device__ __forceinline__ void load_vector(uint32 (&words)[4], int row, int chunk, bool exists) const {
    const int k = gemm_lanes::kChunkK * chunk + 8 * CopiedWords::vector_of_lane(lane_index());
    const char* const src = static_cast<const char*>(args_.activations) + row * args_.activation_stride;
    load_global<4, 16>(words, src + 2 * static_cast<int64>(k), exists && k < args_.k);
  }

  /// By kCount threads, unless `may_store()`, which is asked once, says no: while it finds out, loads are under way.
  template <int kCount, class MayStore>
  __device__ __forceinline__ void reorder(int slice, int thread, MayStore&& may_store) const {
    constexpr int kRows = kCount / kChunkLanes;
    constexpr int kAtOnce = kCount > kWarpSize ? 8 : 1;  // loads of a thread that are under way
    constexpr int kChunkRows = plan::kTileM;
    const int lane = thread % kChunkLanes;
    const int first = slice * args_.slice_chunks + min(slice, args_.larger_slices);
    const int count = args_.slice_chunks + (slice < args_.larger_slices ? 1 : 0);
    int chunk = first / args_.row_tiles;  // of k's
    int first_row = first % args_.row_tiles * kChunkRows;
    bool is_asked = false;
#pragma unroll 1
    for (int left = count * (kChunkRows / kRows); left > 0; left -= kAtOnce) {
      uint32 vectors[kAtOnce][4];
      int chunks[kAtOnce];
      int rows[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        chunks[i] = chunk;
        rows[i] = i < left ? first_row + thread / kChunkLanes : args_.m;
        load_vector(vectors[i], rows[i], chunk, rows[i] < args_.m);
        first_row += kRows;
        const bool is_last = first_row == args_.row_tiles * kChunkRows;
        first_row = is_last ? 0 : first_row;
        chunk += is_last ? 1 : 0;
      }
      if (!is_asked && !may_store()) return;
      is_asked = true;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        uint32 pairs[4];
        CopiedWords::reorder_in_registers(pairs, vectors[i]);
        char* const dst = static_cast<char*>(args_.reordered) + rows[i] * args_.reordered_stride;
        if (rows[i] < args_.m)
          store_global(dst + 2 * gemm_lanes::kChunkK * static_cast<int64>(chunks[i]) + 16 * lane, pairs);
      }
    }
  }

  const W4a16GemmArguments& args_;
  bool has_taken_ = false;  // in one lane, the block's slice
  bool has_waited_ = false;
};

template <class CopiedWords>
class ReorderedActivations<CopiedWords, false> {
 public:
  explicit __device__ __forceinline__ ReorderedActivations(const W4a16GemmArguments&) {}
  __device__ __forceinline__ void reorder_own() const {}
  __device__ __forceinline__ void take_own() {}
  __device__ __forceinline__ void wait() {}
  __device__ __forceinline__ void leave() {}
};

/// The map of activations in order: another than that of activations as they are where the launch puts them in order.
template <bool kExists>
struct ReorderedMap {
  TensorMap map;
  __device__ __forceinline__ const TensorMap& in_order(const TensorMap&) const { return map; }
};
template <>
struct ReorderedMap<false> {
  // Compiled there, and never used.
  __device__ __forceinline__ const TensorMap& in_order(const TensorMap& as_they_are) const { return as_they_are; }
};

}  // namespace cubit
