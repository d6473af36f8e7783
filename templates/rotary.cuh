// Rotary embedding: pairs of a row's first channels are turned by angles whose cosines and sines stand in a table, by
// position. Any base and any scaling of frequencies is a table. In float, every operation rounded by itself:
// (x, y) becomes (x cos - y sin, y cos + x sin).
//
// Interface of a rotation: turn<Element, kLanes>(values, words, lane, lanes, cosines, sines, exists): `values` and `words` are
// this lane's channels, as floats and as the pairs of Elements that were loaded; the first `lanes` of a row's kLanes hold
// channels to rotate; the table's rows are read by them alone, and only where the position `exists`. All lanes of a warp call
// it together. NoRotary has none: its words are stored as they come.
#pragma once

#include "row_lanes.cuh"
#include "types.cuh"

namespace cubit {

/// kCount values of a table, 16-byte aligned.
template <int kCount>
__device__ __forceinline__ void load_floats(float (&dst)[kCount], const char* src) {
  uint32 words[kCount];
  load_global<kCount, 16>(words, src);
#pragma unroll
  for (int i = 0; i < kCount; ++i) dst[i] = __uint_as_float(words[i]);
}

struct NoRotary {};

/// Channels 2i and 2i + 1 are a pair.
struct InterleavedRotary {
  template <class Element, int kLanes>
  static __device__ __forceinline__ void turn(float (&values)[kLaneChannels], const uint32 (&)[4], int lane, int lanes,
                                              const char* cosines, const char* sines, bool exists) {
    if (!exists || lane >= lanes) return;
    float cosine[4];
    float sine[4];
    load_floats(cosine, cosines + 16 * lane);
    load_floats(sine, sines + 16 * lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = values[2 * i];
      const float y = values[2 * i + 1];
      values[2 * i] = __fsub_rn(__fmul_rn(x, cosine[i]), __fmul_rn(y, sine[i]));
      values[2 * i + 1] = __fadd_rn(__fmul_rn(y, cosine[i]), __fmul_rn(x, sine[i]));
    }
  }
};

/// Channels i and i + rotary_dim / 2 are a pair: they meet from lanes that are half of `lanes` apart.
struct HalfSplitRotary {
  template <class Element, int kLanes>
  static __device__ __forceinline__ void turn(float (&values)[kLaneChannels], const uint32 (&words)[4], int lane,
                                              int lanes, const char* cosines, const char* sines, bool exists) {
    const int half = lanes / 2;
    const bool is_first = lane < half;
    uint32 others[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      others[i] = __shfl_sync(kFullWarp, words[i], is_first ? lane + half : lane - half, kLanes);
    if (!exists || lane >= lanes) return;
    float other[kLaneChannels];
    widen<Element>(other, others);
    const int pairs_at = 32 * (is_first ? lane : lane - half);
    float cosine[kLaneChannels];
    float sine[kLaneChannels];
    load_floats(cosine, cosines + pairs_at);
    load_floats(sine, sines + pairs_at);
#pragma unroll
    for (int i = 0; i < kLaneChannels; ++i) {
      const float turned = __fmul_rn(other[i], sine[i]);
      values[i] = __fadd_rn(__fmul_rn(values[i], cosine[i]), is_first ? -turned : turned);
    }
  }
};

}  // namespace cubit
