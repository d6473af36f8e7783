// Device-wide reordering of activations for the sm_90 GEMM: all blocks of a launch together store the activations once,
// in the order along k that the weights require (word_activations.cuh), in the workspace.
//
// The plan chooses this if a tile has so many rows that reordering in every block would cost more. The first stages of
// a block are an exception: the block reorders their activations itself, so that it need not wait for all other blocks.
//
// A chunk is 64 values along k of kTileM rows. Chunks with the same k follow one another. A reorder slice is a run of
// consecutive chunks. Block b takes reorder slice b. A block that has waited long also takes slices that no block has
// begun. So no block depends on a block that has not started, and every slice is stored once.
//
// Workspace: one word per reorder slice says whether a block has taken the slice. Two counters follow: the number of
// finished slices, and the number of blocks that have seen all slices finished. The last block to increment the second
// counter sets all of these words back to zero.
//
// PTX ISA, "Memory Consistency Model": a block barrier orders the stores of a block before its red.release. When
// another block's ld.acquire observes the red, the stores are ordered before what that block does next. "Proxies": TMA
// box copies need a fence.proxy.async in between.
#pragma once

#include "plan.cuh"

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_block.cuh"
#include "gemm/gemm_lanes.h"
#include "kernels/gemm/gemm_arguments.h"

namespace cubit {

/// A block's contribution to the reordering. If `kExists` is false, all functions do nothing.
template <class Activations, bool kExists>
class ReorderedActivations {
 public:
  explicit __device__ __forceinline__ ReorderedActivations(const GemmArguments& args) : args_(args) {}

  /// Reorders the block's own slice, if the producer warp has taken the slice (take_own). All consumer warps call the
  /// function. The function completes only when the producer warp calls wait(), because both take part in vote_taken().
  __device__ __forceinline__ void reorder_own() const {
    const int slice = block_index();
    if (slice < args_.slices) {
      reorder<kThreads>(slice, static_cast<int>(thread_index()), [] { return vote_taken(false); });
    } else {
      vote_taken(false);
    }
    asm volatile("bar.arrive %0, %1;" ::"n"(kStoredBarrier), "n"(kThreads + kWarpSize) : "memory");
  }

  /// Takes the block's own slice, unless another block has taken it. The producer warp calls the function before
  /// anything else.
  __device__ __forceinline__ void take_own() {
    const int slice = block_index();
    has_taken_ = lane_index() == 0 && slice < args_.slices && take(slice);
  }

  /// Waits until all slices are stored. The producer warp calls the function; only the first call waits.
  __device__ __forceinline__ void wait() {
    constexpr int kPatience = 64;  // polls, each of which takes most of a microsecond
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

  /// Waits and then leaves; the last block of the launch sets the workspace's words back to zero. The producer warp
  /// calls the function at its end.
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
  // Named barriers of the consumer warps and the producer warp. Barrier 0 is __syncthreads and barrier 1 is sync_warps.
  static constexpr int kTakenBarrier = 2;
  static constexpr int kStoredBarrier = 3;

  /// The two counters behind the slices' words; a slice's word is nonzero once a block has taken the slice.
  __device__ __forceinline__ uint32* done() const { return args_.slice_states + args_.slices; }
  __device__ __forceinline__ uint32* departed() const { return done() + 1; }

  static __device__ __forceinline__ int block_index() {
    return static_cast<int>((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
  }

  /// Tells the consumer warps whether this block has taken its own slice. The producer warp passes true in one lane if
  /// that is so, and the consumer warps pass false. The function is a barrier of all these warps, and returns true in
  /// all of their threads if any thread passes true.
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

  /// Tries to take a slice for this block and returns true on success. One thread calls the function.
  __device__ __forceinline__ bool take(int slice) const {
    uint32 before;
    asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(args_.slice_states + slice)
                 : "memory");
    return before == 0;
  }

  /// Counts a slice as finished. One thread calls the function, after a barrier of the warps that stored the slice.
  __device__ __forceinline__ void count_done() const {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(done()) : "memory");
  }

  __device__ __forceinline__ bool all_done() const {
    uint32 count = 0;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(done()) : "memory");
    return __all_sync(kFullWarp, static_cast<int>(count) >= args_.slices);
  }

  /// Reorders all slices that no block has begun. One warp calls the function.
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

  /// Loads one 16-byte vector: eight values along k of a row, or zeros.
  __device__ __forceinline__ void load_vector(uint32 (&words)[4], int row, int chunk, bool exists) const {
    const int k = gemm_lanes::kChunkK * chunk + 8 * Activations::vector_of_lane(lane_index());
    const char* const src = static_cast<const char*>(args_.activations) + row * args_.activation_stride;
    load_global<4, 16>(words, src + 2 * static_cast<int64>(k), exists && k < args_.k);
  }

  /// Reorders a slice with kCount threads, unless `may_store()` returns false. `may_store()` is called once, while the
  /// first loads are in flight.
  template <int kCount, class MayStore>
  __device__ __forceinline__ void reorder(int slice, int thread, MayStore&& may_store) const {
    constexpr int kRows = kCount / kChunkLanes;
    constexpr int kAtOnce = kCount > kWarpSize ? 8 : 1;  // loads in flight per thread
    constexpr int kChunkRows = plan::kTileM;
    const int lane = thread % kChunkLanes;
    const int first = slice * args_.slice_chunks + min(slice, args_.larger_slices);
    const int count = args_.slice_chunks + (slice < args_.larger_slices ? 1 : 0);
    int chunk = first / args_.row_tiles;  // chunk index along k
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
        Activations::reorder_in_registers(pairs, vectors[i]);
        char* const dst = static_cast<char*>(args_.reordered) + rows[i] * args_.reordered_stride;
        if (rows[i] < args_.m)
          store_global(dst + 2 * gemm_lanes::kChunkK * static_cast<int64>(chunks[i]) + 16 * lane, pairs);
      }
    }
  }

  const GemmArguments& args_;
  bool has_taken_ = false;  // in one lane: this block has taken its own slice
  bool has_waited_ = false;
};

template <class Activations>
class ReorderedActivations<Activations, false> {
 public:
  explicit __device__ __forceinline__ ReorderedActivations(const GemmArguments&) {}
  __device__ __forceinline__ void reorder_own() const {}
  __device__ __forceinline__ void take_own() {}
  __device__ __forceinline__ void wait() {}
  __device__ __forceinline__ void leave() {}
};

/// Tensor map of the reordered activations, which exists if the launch reorders activations. Otherwise in_order()
/// returns the map of the original activations.
template <bool kExists>
struct ReorderedMap {
  TensorMap map;
  __device__ __forceinline__ const TensorMap& in_order(const TensorMap&) const { return map; }
};
template <>
struct ReorderedMap<false> {
  // The function must compile, but is never called.
  __device__ __forceinline__ const TensorMap& in_order(const TensorMap& as_they_are) const { return as_they_are; }
};

}  // namespace cubit
