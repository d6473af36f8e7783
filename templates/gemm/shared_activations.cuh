// Activation operand of the persistent GEMM: activations of 16 or 8 bits in natural order along k, which wgmma reads
// from shared memory as TMA leaves them.
//
// A stage has kTokens rows of 128 bytes (kSlabK values along k) with 128-byte swizzle. A box has half of the tokens.
// The two blocks of a cluster either load one half each, into both blocks (multicast), or load both halves for
// themselves.
//
// Interface of an activation operand: kBytes of a stage, load(), which one thread of the producer warp calls, and
// describe(), the B operand of a step.
#pragma once

#include "core/bulk_copies.cuh"
#include "core/types.cuh"
#include "core/wgmma.cuh"
#include "gemm/persistent_gemm_lanes.h"

namespace cubit {

template <int kTokens, int kSlabK = persistent_lanes::kSlabK>
struct SharedActivations {
  static constexpr uint32 kBytes = persistent_lanes::kSlabBytes * kTokens;
  static_assert(kTokens % 16 == 0, "half of the tokens are whole swizzle atoms of 8 rows");

  /// Starts the copies of slab `slab` of tokens `token` and up, of `tokens` in all, to `dst`. `rank`: this block's rank
  /// in the cluster.
  static __device__ __forceinline__ void load(const TensorMap& map, uint32 dst, int token, int tokens, int slab,
                                              uint32 barrier, bool multicast, int rank) {
    constexpr uint16 kBothBlocks = 3;
    constexpr int kHalf = kTokens / 2;
    const int k = slab * kSlabK;
    // A box begins inside the tensor. What it holds for tokens that do not exist is not stored.
    const auto first = [&](int half) { return min(token + half * kHalf, tokens - 1); };
    if (multicast) {
      copy_box_to_blocks(dst + rank * (kBytes / 2), map, k, first(rank), barrier, kBothBlocks);
    } else {
      copy_box(dst, map, k, first(0), barrier);
      copy_box(dst + kBytes / 2, map, k, first(1), barrier);
    }
  }

  /// Matrix descriptor of a stage. Each further step of 32 bytes along k adds kStepOffset.
  static constexpr uint64 kStepOffset = 32 / 16;
  static __device__ __forceinline__ uint64 describe(uint32 stage) { return describe_rows_of_128(stage); }
};

}  // namespace cubit
