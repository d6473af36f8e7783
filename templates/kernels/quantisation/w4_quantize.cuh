// Rounds the weights of a linear layer to 4 bits, group by group, in the layout of a checkpoint, and reports the
// errors.
//
//   warp, groups of 16 to 128   | lanes 0 … 15: k = 8 · lane …, of n = 0 … 7   lanes 16 … 31: the same k, of n = 8 … 15
//   block                       | 4 warps: 64 n, 128 values along k
//
//   warp, one group of all of k | lanes 0 … 31: k = 8 · lane …, of n = 0 … 7, in steps of 256 values along k
//   block                       | 4 warps: 32 n
//
// A thread has eight values along k of eight n, in 16-byte loads that are all in flight together. A word of either
// layout needs exactly these weights, so one thread makes each word, each word of zeros, 16 bytes of scales and 32
// bytes of errors. The lanes of a group combine extremes and errors by shuffles. The kernel uses neither shared memory
// nor barriers. Weights are read once; if one group spans all of k, weights are read twice, the first time for the
// extremes. The kernel runs on all architectures.
//
// Scales, zeros and errors are indexed by [k / group size, n]. The last group may be shorter.
//
// PTX ISA: "Data Movement and Conversion Instructions" (ld, st, shfl, prmt, cvt), "Floating Point Instructions".
#include "plan.cuh"

#include "core/copies.cuh"
#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/quantisation/w4_quantize_arguments.h"
#include "kv_format/row_lanes.cuh"
#include "weight_format/w4_packing.cuh"
#include "weight_format/w4_rounding.cuh"

namespace cubit {

inline constexpr bool kGroupsAreAll = plan::kGroupSize == 0;
inline constexpr int kThreadRows = 8;
inline constexpr int kLanes = kGroupsAreAll ? 32 : 16;  // lanes per row
inline constexpr int kStepK = kLanes * kWordWeights;
inline constexpr int kGroupLanes = kGroupsAreAll ? kLanes : plan::kGroupSize / kWordWeights;
inline constexpr int kHeldRows = kGroupLanes < kThreadRows ? kThreadRows / kGroupLanes : 1;

/// Weights of this thread, eight rows n. Weights that do not exist are zeros, which change no group.
struct Weights {
  uint32 words[kThreadRows][4];

  __device__ __forceinline__ void load(const W4QuantizeArguments& args, int first_n, int first_k, bool exists) {
    const char* const src = args.weights + first_n * args.row_stride + static_cast<int64>(2) * first_k;
#pragma unroll
    for (int row = 0; row < kThreadRows; ++row) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[row][i] = 0;
      if (exists) load_global<4, 16>(words[row], src + row * args.row_stride);
    }
  }
  __device__ __forceinline__ void widen_extremes(float (&lowest)[kThreadRows], float (&highest)[kThreadRows]) const {
#pragma unroll
    for (int row = 0; row < kThreadRows; ++row) {
      float weights[kWordWeights];
      widen<plan::Input>(weights, words[row]);
#pragma unroll
      for (int i = 0; i < kWordWeights; ++i) {
        lowest[row] = fminf(lowest[row], weights[i]);
        highest[row] = larger_or_nan(highest[row], weights[i]);
      }
    }
  }
};

/// Returns `a` if the mask is all ones, and `b` if it is 0. The bit operations stay a selection; from `?:` the compiler
/// has made branches with a shuffle in each.
__device__ __forceinline__ float choose(uint32 mask, float a, float b) {
  return __uint_as_float((__float_as_uint(a) & mask) | (__float_as_uint(b) & ~mask));
}

/// Combines the values of eight rows over the lanes of a group. Afterwards a lane has the results of kHeldRows rows,
/// from first_held_row() on. As long as a lane combines several rows, each step halves their number, which needs fewer
/// shuffles than one row after another.
template <class Combine>
__device__ __forceinline__ void combine_rows(float (&values)[kThreadRows], int lane, Combine combine) {
  int held = kThreadRows;
#pragma unroll
  for (int distance = kGroupLanes / 2; distance > 0; distance /= 2) {
    if (held == 1) {
      values[0] = combine(values[0], __shfl_xor_sync(kFullWarp, values[0], distance, kLanes));
      continue;
    }
    held /= 2;
    const uint32 takes_upper = 0u - (static_cast<uint32>(lane / distance) & 1u);
#pragma unroll
    for (int i = 0; i < kThreadRows / 2; ++i) {
      if (i >= held) continue;
      const float kept = choose(takes_upper, values[i + held], values[i]);
      const float sent = choose(takes_upper, values[i], values[i + held]);
      values[i] = combine(kept, __shfl_xor_sync(kFullWarp, sent, distance, kLanes));
    }
  }
}

__device__ __forceinline__ int first_held_row(int lane) { return lane % kGroupLanes * kThreadRows / kGroupLanes; }

/// Fits the factors of each row's group to the extremes that its lanes have found. Each lane fits the rows that it
/// holds and sends their factors to the other lanes.
__device__ __forceinline__ void fit_rows(W4Factors (&factors)[kThreadRows], float (&lowest)[kThreadRows],
                                         float (&highest)[kThreadRows], int lane) {
  combine_rows(lowest, lane, [](float a, float b) { return fminf(a, b); });
  combine_rows(highest, lane, [](float a, float b) { return larger_or_nan(a, b); });
  W4Factors held[kHeldRows];
#pragma unroll
  for (int i = 0; i < kHeldRows; ++i) held[i] = plan::Fit::fit(lowest[i], highest[i]);
  const int first = lane / kGroupLanes * kGroupLanes;
#pragma unroll
  for (int row = 0; row < kThreadRows; ++row) {
    const int source = first + row * kGroupLanes / kThreadRows;
    const W4Factors& given = held[row % kHeldRows];
    factors[row].scale = __shfl_sync(kFullWarp, given.scale, source, kLanes);
    factors[row].zero = __shfl_sync(kFullWarp, given.zero, source, kLanes);
    factors[row].steps = __shfl_sync(kFullWarp, given.steps, source, kLanes);
  }
}

__device__ __forceinline__ void store_factors(const W4QuantizeArguments& args, const W4Factors (&factors)[kThreadRows],
                                              int64 group, int first_n) {
  uint32 scales[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) scales[i] = Pair<Half>::pack(factors[2 * i].scale, factors[2 * i + 1].scale);
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < kThreadRows; ++i) sum += factors[i].scale;
  if (sum != sum) {  // a NaN is stored as 0x7e00; the conversion makes 0x7fff
#pragma unroll
    for (int i = 0; i < 4; ++i) scales[i] = min(scales[i] & 0xffffu, 0x7e00u) | min(scales[i] >> 16, 0x7e00u) << 16;
  }
  store_global(args.scales + 2 * (group * args.n + first_n), scales);
  if constexpr (plan::kStoresZeros) {
    uint32 zeros[kThreadRows];
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) zeros[i] = static_cast<uint32>(factors[i].zero) - plan::kZeroOffset;
    store_global(args.qzeros + 4 * (group * (args.n / 8) + first_n / 8), plan::Packing::zeros(zeros));
  }
}

/// Errors of each row's group; each lane accumulates the errors of its own weights.
struct Errors {
  float largest[kThreadRows] = {};
  float squares[kThreadRows] = {};

  __device__ __forceinline__ void store(const W4QuantizeArguments& args, int64 group, int first_n, int lane,
                                        bool stored) {
    if (args.max_error == nullptr && args.rms_error == nullptr) return;
    combine_rows(largest, lane, [](float a, float b) { return fmaxf(a, b); });
    combine_rows(squares, lane, [](float a, float b) { return a + b; });
    // If several lanes hold the same row, the first of these lanes stores the row's errors.
    if (!stored || (kGroupLanes > kThreadRows && lane % (kGroupLanes / kThreadRows) != 0)) return;
    const int left = args.k - static_cast<int>(group) * plan::kGroupSize;
    const auto count = static_cast<float>(kGroupsAreAll ? left : min(left, plan::kGroupSize));
    const int64 at = 4 * (group * args.n + first_n + first_held_row(lane));
#pragma unroll
    for (int i = 0; i < kHeldRows; ++i) {
      float root;
      asm("sqrt.rn.f32 %0, %1;" : "=f"(root) : "f"(squares[i] / count));
      const float most = squares[i] == squares[i] ? largest[i] : quiet_nan();
      if (args.max_error != nullptr) store_global(args.max_error + at + 4 * i, __float_as_uint(most));
      if (args.rms_error != nullptr) store_global(args.rms_error + at + 4 * i, __float_as_uint(root));
    }
  }
};

__device__ __forceinline__ void round_rows(const W4QuantizeArguments& args, const Weights& weights,
                                           const W4Factors (&factors)[kThreadRows], Errors& errors, int first_n,
                                           int first_k, bool stored) {
  uint32 words[kThreadRows];
#pragma unroll
  for (int row = 0; row < kThreadRows; ++row) {
    float values[kWordWeights];
    widen<plan::Input>(values, weights.words[row]);
    words[row] = round_word(values, factors[row], errors.largest[row], errors.squares[row]);
  }
  if (stored) plan::Packing::store(args.qweight, words, args.n, first_n, first_k);
}

/// Quantises groups of 16, 32, 64 or 128 values along k, in one step.
__device__ __forceinline__ void quantise_groups(const W4QuantizeArguments& args, int first_n, int lane) {
  const int first_k = static_cast<int>(blockIdx.x) * kStepK + lane * kWordWeights;
  const bool exists = first_n < args.n && first_k < args.k;
  Weights weights;
  weights.load(args, first_n, first_k, exists);
  float lowest[kThreadRows] = {};
  float highest[kThreadRows] = {};
  weights.widen_extremes(lowest, highest);
  W4Factors factors[kThreadRows];
  fit_rows(factors, lowest, highest, lane);
  Errors errors;
  round_rows(args, weights, factors, errors, first_n, first_k, exists);
  const int64 group = first_k / (kGroupLanes * kWordWeights);
  if (exists && lane % kGroupLanes == 0) store_factors(args, factors, group, first_n);
  // A lane stores the errors of its rows even if its own weights lie beyond the end of a shorter group.
  errors.store(args, group, first_n, lane, first_n < args.n && group * plan::kGroupSize < args.k);
}

/// Quantises one group of all of k, in two passes over the rows.
__device__ __forceinline__ void quantise_all(const W4QuantizeArguments& args, int first_n, int lane) {
  const bool exists = first_n < args.n;
  float lowest[kThreadRows] = {};
  float highest[kThreadRows] = {};
  Weights weights;
#pragma unroll 1
  for (int first_k = lane * kWordWeights; first_k < args.k; first_k += kStepK) {
    weights.load(args, first_n, first_k, exists);
    weights.widen_extremes(lowest, highest);
  }
  __syncwarp();
  W4Factors factors[kThreadRows];
  fit_rows(factors, lowest, highest, lane);
  Errors errors;
#pragma unroll 1
  for (int first_k = lane * kWordWeights; first_k < args.k; first_k += kStepK) {
    weights.load(args, first_n, first_k, exists);
    round_rows(args, weights, factors, errors, first_n, first_k, exists);
  }
  __syncwarp();
  if (exists && lane == 0) store_factors(args, factors, 0, first_n);
  errors.store(args, 0, first_n, lane, exists);
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kThreads)
    w4_quantize(const __grid_constant__ cubit::W4QuantizeArguments args) {
  using namespace cubit;
  const int lane = lane_index() % kLanes;
  const uint32 row_group = blockIdx.y * (plan::kThreads / kLanes) + thread_index() / kLanes;
  const int first_n = static_cast<int>(row_group) * kThreadRows;
  // Lanes whose rows do not exist do not exit, because they take part in the warp's shuffles.
  if constexpr (kGroupsAreAll) {
    quantise_all(args, first_n, lane);
  } else {
    quantise_groups(args, first_n, lane);
  }
}
