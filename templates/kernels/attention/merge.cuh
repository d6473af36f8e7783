// Merges partial results of attention over the same queries, each computed over different keys. The result equals
// attention over all the keys at once.
//
//   output = sum over p of exp(partial_lse[p]) · partial_outputs[p] / sum over p of exp(partial_lse[p])
//   lse    = log(sum over p of exp(partial_lse[p]))
//
//   thread | channels 0 … of head 0 | the next channels | … | channels 0 … of head 1 | …     row by row, across blocks
//
// A thread handles 16 bytes of the wider of the two types (8 channels of 16-bit values, or 4 if one type is float) of
// every partial result. It makes one pass: the running sum is rescaled if the next results have a larger log-sum-exp.
// Partial results are added in order, so equal inputs give equal bits. The loads of kAtOnce partial results are in
// flight together. The kernel runs on all architectures, without shared memory or synchronisation.
//
// Cost per partial result and thread: one load of channels, one load of the log-sum-exp (the same address for all
// threads of a head), one exponential, and one multiplication and addition per channel. Memory bandwidth is the limit.
//
// PTX ISA: "Data Movement and Conversion Instructions" (ld, st, cvt), "Floating Point Instructions" (ex2, lg2).
#include "plan.cuh"

#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/attention/merge_arguments.h"
#include "kv_format/lane_channels.cuh"

namespace cubit {

inline constexpr int kAtOnce = 4;
/// Initial reference. It is below every finite log-sum-exp, yet finite, because -inf - -inf must not reach exp2_fast.
inline constexpr float kLowest = -3.402823466e38f;

template <int kChannels>
struct Merged {
  float values[kChannels] = {};  // unnormalised
  float reference = kLowest;
  float sum = 0;

  __device__ __forceinline__ void rescale(float larger_reference) {
    const float kept = exp2_fast((reference - larger_reference) * kLog2e);
    sum *= kept;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) values[i] *= kept;
    reference = larger_reference;
  }
  /// Adds one partial result. The values of an empty partial result may be anything. A NaN stays NaN, however small the
  /// weight of its partial result.
  template <class Values>
  __device__ __forceinline__ void add(float lse, uint32 (&words)[Values::kWords]) {
    const float weight = exp2_fast((lse - reference) * kLog2e);
#pragma unroll
    for (int i = 0; i < Values::kWords; ++i) words[i] = lse == negative_infinity() ? 0u : words[i];
    float part[kChannels];
    Values::widen(part, words);
    sum += weight;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) values[i] += weight * part[i];
  }
};

__device__ __forceinline__ float load_lse(const char* src) {
  float result;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(result) : "l"(src));
  return result;
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kThreads) merge(const __grid_constant__ cubit::MergeArguments args) {
  using namespace cubit;
  using Partial = LaneChannels<plan::Input, plan::kChannels>;
  using Result = LaneChannels<plan::Output, plan::kChannels>;
  constexpr uint32 kHeadThreads = plan::kHeadDim / plan::kChannels;
  const uint32 index = blockIdx.x * plan::kThreads + thread_index();
  if (index >= args.items) return;
  const uint32 head_index = index / kHeadThreads;
  const uint32 lane = index - head_index * kHeadThreads;
  const int64 row = quotient(head_index, args.heads);
  const int64 head = head_index - static_cast<uint32>(row) * args.heads.divisor;

  const char* partial = args.partial_outputs + row * args.partial_output_strides[1] +
                        head * args.partial_output_strides[2] + lane * Partial::kBytes;
  const char* lse = args.partial_lse + row * args.partial_lse_strides[1] + head * args.partial_lse_strides[2];
  Merged<plan::kChannels> merged;
  for (int first = 0; first < args.parts; first += kAtOnce) {
    uint32 words[kAtOnce][Partial::kWords] = {};
    float part_lse[kAtOnce];
    float reference = merged.reference;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      part_lse[i] = negative_infinity();
      if (first + i < args.parts) {
        part_lse[i] = load_lse(lse);
        load_words(words[i], partial);
        lse += args.partial_lse_strides[0];
        partial += args.partial_output_strides[0];
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) reference = maximum(reference, part_lse[i]);
    merged.rescale(reference);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) merged.add<Partial>(part_lse[i], words[i]);
  }

  const float inverse = merged.sum == 0.f ? 0.f : 1.f / merged.sum;
#pragma unroll
  for (int i = 0; i < plan::kChannels; ++i) merged.values[i] *= inverse;
  uint32 words[Result::kWords];
  Result::narrow(words, merged.values);
  store_words(args.output + row * args.output_strides[0] + head * args.output_strides[1] + lane * Result::kBytes,
              words);
  if (args.lse == nullptr || lane != 0) return;
  const float total = merged.sum == 0.f ? negative_infinity() : merged.reference + kLn2 * log2_fast(merged.sum);
  asm volatile("st.global.f32 [%0], %1;" ::"l"(args.lse + row * args.lse_strides[0] + head * args.lse_strides[1]),
               "f"(total)
               : "memory");
}
