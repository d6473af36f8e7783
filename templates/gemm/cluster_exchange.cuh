// Split-K over the two blocks of a cluster: each block has the sums of half of k for one tile, gives one half of the
// tokens to the other block, and adds what the other block gives to the half that it keeps.
//
// The sums travel through shared memory in both blocks: a thread stores what it gives away, one bulk copy per warpgroup
// carries the sums to the other block, and the other block's thread with the same index reads them. The buffers reuse
// the pipeline stages, so that the exchange must wait until no warp of either block reads a stage. Each cluster
// exchanges once: with split k a cluster computes one tile.
//
// Shared memory at `ring`: sums that warpgroups 0 and 1 give | sums that warpgroups 0 and 1 receive. Thread t has 16
// bytes at 16 t of each 2048 bytes.
//
// Who waits for whom: each consumer warp arrives at `idle` of the other block when it has read its last stage. A
// warpgroup's first thread waits there before it starts the copy. `received` counts the bytes that have arrived.
//
// PTX ISA: "cp.async.bulk", "mapa", "mbarrier".
#pragma once

#include "core/bulk_copies.cuh"
#include "core/cluster.cuh"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/persistent_gemm_lanes.h"

namespace cubit {

/// Named barriers of the consumer warpgroups; barrier 0 is __syncthreads().
inline constexpr int kConsumerBarrier = 1;    ///< of both warpgroups
inline constexpr int kWarpgroupBarriers = 2;  ///< of warpgroup 0, and of warpgroup 1 behind it

template <int kThreads>
__device__ __forceinline__ void sync_threads(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

/// Addresses of the exchange mbarriers, equal in both blocks.
struct ExchangeBarriers {
  static constexpr int kBytes = 3 * 8;
  uint32 at;

  __device__ __forceinline__ uint32 idle() const { return at; }
  __device__ __forceinline__ uint32 received(int warpgroup) const { return at + 8 + 8 * warpgroup; }
  __device__ __forceinline__ void init() const {
    init_barrier(idle(), persistent_lanes::kConsumerWarps);
    init_barrier(received(0), 1);
    init_barrier(received(1), 1);
  }
};

/// `sums` are kBlocks blocks of 8 tokens. Afterwards the first half of `sums` holds the complete sums of the tokens of
/// half `rank`. All consumer threads call the function; `thread` is the index within the warpgroup.
template <int kBlocks, class Sum>
__device__ __forceinline__ void exchange_halves(Sum (&sums)[kBlocks][4], uint32 ring, ExchangeBarriers barriers,
                                                uint32 rank, int warpgroup, int thread) {
  static_assert(sizeof(Sum) == 4 && kBlocks % 2 == 0);
  constexpr int kHalf = kBlocks / 2;
  constexpr uint32 kBlockBytes = 16 * 128;
  constexpr uint32 kBytes = kHalf * kBlockBytes;
  const uint32 given = ring + warpgroup * kBytes;
  const uint32 received = ring + (2 + warpgroup) * kBytes;
  __syncwarp();
  if (thread % kWarpSize == 0) release_in_block(address_in_block(barriers.idle(), rank ^ 1));
  sync_threads<256>(kConsumerBarrier);
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    uint32 words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const Sum sum = rank != 0 ? sums[i][j] : sums[kHalf + i][j];
      words[j] = reinterpret_cast<const uint32&>(sum);
    }
    store_shared(given + i * kBlockBytes + 16 * thread, words);  // access: stores of given sums
  }
  fence_async_proxy();
  sync_threads<128>(kWarpgroupBarriers + warpgroup);
  if (thread == 0) {
    expect_bytes(barriers.received(warpgroup), kBytes);
    wait_barrier(barriers.idle(), 0);
    copy_to_block(address_in_block(received, rank ^ 1), given, kBytes,
                  address_in_block(barriers.received(warpgroup), rank ^ 1));
  }
  wait_barrier(barriers.received(warpgroup), 0);
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    uint32 words[4];
    load_shared(words, received + i * kBlockBytes + 16 * thread);  // access: loads of received sums
#pragma unroll
    for (int j = 0; j < 4; ++j)
      sums[i][j] = reinterpret_cast<const Sum&>(words[j]) + (rank != 0 ? sums[kHalf + i][j] : sums[i][j]);
  }
}

}  // namespace cubit
