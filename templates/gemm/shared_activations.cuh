// Activation operand of the persistent GEMM: activations of 16 or 8 bits in natural order along k, which wgmma reads
// from shared memory as TMA leaves them.
//
// A stage has kTokens rows of 128 bytes (kSlabK values along k) with 128-byte swizzle. The two blocks of a cluster
// either load one half of the tokens each, into both blocks (multicast), or load both halves for themselves. A half is
// one or several boxes.
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
    constexpr int kBoxes = kTokens / kBoxTokens;
    const int k = slab * kSlabK;
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int first = first_token(token + box * kBoxTokens, tokens);
      const uint32 place = dst + box * (kBoxTokens * persistent_lanes::kSlabBytes);
      if (!multicast) {
        copy_box(place, map, k, first, barrier);
      } else if (box / (kBoxes / 2) == rank) {
        copy_box_to_blocks(place, map, k, first, barrier, kBothBlocks);
      }
    }
  }

  /// Matrix descriptor of a stage. Each further step of 32 bytes along k adds kStepOffset.
  static constexpr uint64 kStepOffset = 32 / 16;
  static __device__ __forceinline__ uint64 describe(uint32 stage) { return describe_rows_of_128(stage); }

 private:
  static constexpr int kBoxTokens = persistent_lanes::box_tokens(kTokens);

  /// The first of the tokens that a box brings, of `tokens` in all. A box of tokens that do not exist brings others,
  /// whose products are not stored.
  static __device__ __forceinline__ int first_token(int token, int tokens) {
    return token < tokens ? token : max(0, tokens - kBoxTokens);
  }
};

}  // namespace cubit
