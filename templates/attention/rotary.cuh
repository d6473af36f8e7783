// Rotary position embedding: rotates pairs of a row's first channels by angles whose cosines and sines come from a
// table indexed by position.
//
// A table expresses any base and any frequency scaling. The arithmetic is in float, with every operation rounded: (x,
// y) becomes (x cos - y sin, y cos + x sin).
//
// Interface of a rotation, which belongs to one token: the constructor Rotation<kLanes>(lane, lanes, cosines, sines,
// exists) loads the angles of this lane's channels. The first `lanes` of a row's kLanes lanes hold channels to rotate.
// Only these lanes read the table, and only if the position `exists`. `cosines` and `sines` are the position's rows of
// the tables, with one float per pair. turn<Element>(values, words) rotates a row of the token: `words` holds this
// lane's 8 channels as loaded pairs of Elements, and `values` holds the same channels as floats, which turn() replaces.
// All lanes of a warp call turn() together. NoRotary has no turn(): its words are stored unchanged.
#pragma once

#include "core/types.cuh"
#include "kv_format/row_lanes.cuh"

namespace cubit {

/// Loads kCount values of a table; the address must be 16-byte aligned.
template <int kCount>
__device__ __forceinline__ void load_floats(float (&dst)[kCount], const char* src) {
  uint32 words[kCount];
  load_global<kCount, 16>(words, src);
#pragma unroll
  for (int i = 0; i < kCount; ++i) dst[i] = __uint_as_float(words[i]);
}

template <int kLanes>
struct NoRotary {
  __device__ __forceinline__ NoRotary(int, int, const char*, const char*, bool) {}
};

/// Rotation whose pairs are channels 2i and 2i + 1.
template <int kLanes>
class InterleavedRotary {
 public:
  __device__ __forceinline__ InterleavedRotary(int lane, int lanes, const char* cosines, const char* sines, bool exists)
      : turns_(exists && lane < lanes) {
    if (!turns_) return;
    load_floats(cosine_, cosines + 16 * lane);
    load_floats(sine_, sines + 16 * lane);
  }

  template <class Element>
  __device__ __forceinline__ void turn(float (&values)[kLaneChannels], const uint32 (&)[4]) const {
    if (!turns_) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = values[2 * i];
      const float y = values[2 * i + 1];
      values[2 * i] = __fsub_rn(__fmul_rn(x, cosine_[i]), __fmul_rn(y, sine_[i]));
      values[2 * i + 1] = __fadd_rn(__fmul_rn(y, cosine_[i]), __fmul_rn(x, sine_[i]));
    }
  }

 private:
  bool turns_;
  float cosine_[4];
  float sine_[4];
};

/// Rotation whose pairs are channels i and i + rotary_dim / 2. The two channels of a pair are held by lanes that are
/// `lanes` / 2 apart.
template <int kLanes>
class HalfSplitRotary {
 public:
  __device__ __forceinline__ HalfSplitRotary(int lane, int lanes, const char* cosines, const char* sines, bool exists)
      : turns_(exists && lane < lanes) {
    const int half = lanes / 2;
    const bool is_first = lane < half;
    partner_ = is_first ? lane + half : lane - half;
    sign_ = is_first ? -1.f : 1.f;
    if (!turns_) return;
    const int pairs_at = 32 * (is_first ? lane : partner_);
    load_floats(cosine_, cosines + pairs_at);
    load_floats(sine_, sines + pairs_at);
  }

  template <class Element>
  __device__ __forceinline__ void turn(float (&values)[kLaneChannels], const uint32 (&words)[4]) const {
    uint32 others[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) others[i] = __shfl_sync(kFullWarp, words[i], partner_, kLanes);
    if (!turns_) return;
    float other[kLaneChannels];
    widen<Element>(other, others);
#pragma unroll
    // The product with a sign of 1 or -1 is exact, so the fused operation equals a rounded sum or difference.
    for (int i = 0; i < kLaneChannels; ++i)
      values[i] = __fmaf_rn(__fmul_rn(other[i], sine_[i]), sign_, __fmul_rn(values[i], cosine_[i]));
  }

 private:
  bool turns_;
  int partner_;
  float sign_;
  float cosine_[kLaneChannels];
  float sine_[kLaneChannels];
};

}  // namespace cubit
