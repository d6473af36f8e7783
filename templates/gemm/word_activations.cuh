// Activation operand in the order of a lane's words: a lane loads 16 neighbouring bytes of a row along k, which are the
// values that its words of weights are multiplied with.
//
// The product does not depend on the order of values along k, as long as both operands have the same order. Words of 8
// nibbles yield the pairs (j, j + 4) of values along k (w4_words_by_k.cuh), so load() picks the same pairs of
// activations (kPicksPairs). Words of 4 bytes need no picking. A step is 64 bytes along k and has two products, p = 0
// and p = 1. Product p has registers 2 p and 2 p + 1 of the operand.
//
// wgmma (sm90_gemm.cuh) reads rows of activations from shared memory, so the rows are reordered: by each block, or once
// per launch for all blocks (reordered_activations.cuh). With r = lane / 4 and c = lane % 4: an even step s and the
// next step have 8 rows of words, that is 64 values along k. With kSpread, lane (r, c) takes the word of row 2c in the
// even step, and the word of row 2c + 1 in the next step. Position 2c + h of product p of step s, with h = 0 or 1,
// therefore is value 8 (2c + s % 2) + 2p + 4h of the 64. Position 8 + 2c + h is the next value. Without kSpread the
// rows of a step are neighbours, and position 2c + h is value 8 (4 (s % 2) + c) + 2p + 4h.
//
// Interface of an activation operand of the loops with mma.sync:
//   kValueBytes                    bytes of a value
//   Places, places(lane)           offsets where the lane's accesses to the first 8 rows begin
//   load(b, activations, places, tile, step)   the B operands of rows 8 · tile … 8 · tile + 7 for both products of a
//                                  step; `activations` is the address of the stage's activations
// In narrow blocks (sm90_narrow_gemm.cuh) a warp has all rows and columns, and registers are scarce. In addition:
//   narrow_place()                 the only offset that the lane keeps
//   load_narrow<kAgain>(b, lane_activations, tile, step)   as load(); `lane_activations` is the address at that offset.
//                                  kAgain: the load is repeated, although the compiler could keep the values of an
//                                  earlier load in registers
// Interface of an activation operand of the loop with wgmma:
//   kNeedsReorder                  whether activations are reordered
//   reorder_in_shared(tile, row, byte)         reorders 64 values along k of a row of activations, in place
//   vector_of_lane, reorder_in_registers       reorder 64 values along k in the registers of eight lanes
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"

namespace cubit {

/// kAt maps (row, byte) to an offset in the stage's activations.
template <int (*kAt)(int, int), bool kPicksPairs, bool kSpread>
struct WordActivations {
  static constexpr int kValueBytes = 2;
  static constexpr bool kNeedsReorder = true;
  using Places = uint32;

  static __device__ __forceinline__ Places places(int lane) {
    const gemm_lanes::Place first = gemm_lanes::activations_by_k(lane, 0, 0);
    return settled(kAt(first.row, first.byte));
  }

  static __device__ __forceinline__ void load(uint32 (&b)[4], uint32 activations, Places places, int tile, int step) {
    const gemm_lanes::Place at = gemm_lanes::activations_by_k(0, tile, step);
    uint32 pairs[4];
    load_shared(pairs, activations + places + kAt(at.row, at.byte));  // access: loads of activations
    pick_pairs(b, pairs);
  }

  static __device__ __forceinline__ uint32 narrow_place() {
    const gemm_lanes::Place first = gemm_lanes::copied_activations_by_k(lane_index(), 0, 0, kSpread);
    return kAt(first.row, first.byte);
  }

  /// Layouts are linear over address bits (XOR), and stages are aligned to the period of the swizzle. The address in an
  /// odd step is therefore the address in the even step before it, XOR the offset of lane 0 in step 1.
  template <bool kAgain>
  static __device__ __forceinline__ void load_narrow(uint32 (&b)[4], uint32 lane_activations, int tile, int step) {
    const auto at = [](int t, int i) {
      const gemm_lanes::Place place = gemm_lanes::copied_activations_by_k(0, t, i, kSpread);
      return kAt(place.row, place.byte);
    };
    const uint32 own = step % 2 == 0 ? lane_activations : lane_activations ^ at(0, 1);
    const uint32 address = own + at(tile, step - step % 2);
    uint32 pairs[4];
    if constexpr (kAgain) {
      load_shared_again(pairs, address);  // access: loads of activations
    } else {
      load_shared(pairs, address);  // access: loads of activations
    }
    pick_pairs(b, pairs);
  }

  /// Reorders 64 values along k of a row of activations, from `byte` on, in place. `tile` is the address of the
  /// activations in shared memory.
  static __device__ __forceinline__ void reorder_in_shared(uint32 tile, int row, int byte) {
    uint32 vectors[8][4];  // vectors of 8 values along k
#pragma unroll
    for (int i = 0; i < 8; ++i)
      load_shared(vectors[i], tile + kAt(row, byte + 16 * i));  // access: loads of activations
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32 words[4] = {vectors[i][0], vectors[i][1], vectors[i][2], vectors[i][3]};
      pick_pairs(vectors[i], words);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // vector i: step i / 4, values i % 4 and i % 4 + 4 of each source vector
      uint32 pairs[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) pairs[c] = vectors[vector(c, i / 4)][i % 4];
      store_shared(tile + kAt(row, byte + 16 * i), pairs);  // access: stores of activations
    }
  }

  /// Index of the 16-byte vector of a chunk (64 values along k of a row) that a lane loads. Lanes 8i … 8i + 7 reorder a
  /// chunk in registers: lane l of the eight begins with vector vector_of_lane(l) and ends with the 16 bytes from byte
  /// 16 · l of the reordered chunk on. All lanes of the warp call reorder_in_registers(), which transposes 4 × 4 pairs
  /// among each four lanes.
  static __device__ __forceinline__ int vector_of_lane(int lane) { return vector(lane % 4, lane / 4 % 2); }
  /// Turns the lane's vector `own` into the lane's 16 bytes of the reordered chunk; see vector_of_lane.
  static __device__ __forceinline__ void reorder_in_registers(uint32 (&pairs)[4], const uint32 (&own)[4]) {
    pick_pairs(pairs, own);  // pair i goes to lane i of the four lanes
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
      // A bit mask instead of a condition: from a condition the compiler makes two branches with a shuffle in each.
      const uint32 is_upper = settled((lane_index() & bit) != 0 ? ~0u : 0u);
      const auto select = [&](uint32 of_upper, uint32 of_lower) {
        return (of_upper & is_upper) | (of_lower & ~is_upper);
      };
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((i & bit) != 0) continue;
        const uint32 low = pairs[i];
        const uint32 high = pairs[i | bit];
        const uint32 taken = __shfl_xor_sync(kFullWarp, select(low, high), bit);
        pairs[i] = select(taken, low);
        pairs[i | bit] = select(high, taken);
      }
    }
  }

 private:
  /// Index of the 16-byte vector (8 of 64 values along k) that lane (·, c) takes in an even and in an odd step.
  static constexpr __device__ __forceinline__ int vector(int c, int odd) { return kSpread ? 2 * c + odd : 4 * odd + c; }

  /// Selects the operand's registers from 8 neighbouring 16-bit values along k.
  static __device__ __forceinline__ void pick_pairs(uint32 (&b)[4], const uint32 (&pairs)[4]) {
    if constexpr (kPicksPairs) {
      b[0] = __byte_perm(pairs[0], pairs[2], 0x5410);  // values 0 and 4
      b[1] = __byte_perm(pairs[0], pairs[2], 0x7632);  // values 1 and 5
      b[2] = __byte_perm(pairs[1], pairs[3], 0x5410);
      b[3] = __byte_perm(pairs[1], pairs[3], 0x7632);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) b[i] = pairs[i];
    }
  }
};

}  // namespace cubit
