// Activation operand for values in natural order along k: ldmatrix loads the values from shared memory.
//
// Interface of an activation operand: see word_activations.cuh. wgmma needs natural order too, so no activations are
// reordered.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"

namespace cubit {

/// kAt maps (row, byte) to an offset in the stage's activations.
template <int (*kAt)(int, int)>
struct MatrixActivations {
  static constexpr int kValueBytes = 2;
  static constexpr bool kNeedsReorder = false;

  struct Places {
    // Offsets for even and odd steps. Even and odd steps differ in an address bit that the swizzle changes, so the
    // distance between the two offsets depends on the lane.
    uint32 of[2];
  };

  static __device__ __forceinline__ Places places(int lane) {
    const gemm_lanes::Place even = gemm_lanes::activations_by_n(lane, 0, 0);
    const gemm_lanes::Place odd = gemm_lanes::activations_by_n(lane, 0, 1);
    return {{settled(kAt(even.row, even.byte)), settled(kAt(odd.row, odd.byte))}};
  }

  static __device__ __forceinline__ void load(uint32 (&b)[4], uint32 activations, const Places& places, int tile,
                                              int step) {
    const gemm_lanes::Place at = gemm_lanes::activations_by_n(0, tile, step);
    const gemm_lanes::Place first = gemm_lanes::activations_by_n(0, 0, step % 2);
    const int distance = kAt(at.row, at.byte) - kAt(first.row, first.byte);
    load_matrices(b, activations + places.of[step % 2] + distance);  // access: ldmatrix.x4 of activations
  }

  static __device__ __forceinline__ uint32 narrow_place() {
    const gemm_lanes::Place first = gemm_lanes::activations_by_n(lane_index(), 0, 0);
    return kAt(first.row, first.byte);
  }

  /// Each call loads from shared memory, because the compiler never merges two ldmatrix instructions.
  template <bool /*kAgain*/>
  static __device__ __forceinline__ void load_narrow(uint32 (&b)[4], uint32 lane_activations, int tile, int step) {
    const auto at = [](int t, int i) {
      const gemm_lanes::Place place = gemm_lanes::activations_by_n(0, t, i);
      return kAt(place.row, place.byte);
    };
    const uint32 own = step % 2 == 0 ? lane_activations : lane_activations ^ at(0, 1);
    load_matrices(b, own + at(tile, step - step % 2));  // access: ldmatrix.x4 of activations
  }
};

}  // namespace cubit
