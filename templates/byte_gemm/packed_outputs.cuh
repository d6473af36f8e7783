// Output types with bytes for the persistent GEMM. Interface of an output type: see gemm/staged_epilogue.cuh.
#pragma once

#include "byte_gemm/arguments.h"
#include "core/copies.cuh"
#include "core/given_scale.cuh"
#include "core/types.cuh"
#include "gemm/staged_epilogue.cuh"

namespace cubit {

/// Outputs that are quantised to bytes with one given scale. `Range` is a range type of core/given_scale.cuh.
template <class Range>
class PackedBytes {
 public:
  static constexpr int kBytes = 1;
  static constexpr bool kMayBeUnaligned = true;
  static constexpr bool kHasSecond = false;

  __device__ __forceinline__ explicit PackedBytes(const PersistentGemmArguments& args)
      : quantise_(*static_cast<const float*>(static_cast<const PersistentByteArguments&>(args).output_scale)) {}
  __device__ __forceinline__ void store(uint32 address, const float (&values)[2]) const {
    const float four[4] = {values[0], values[1], 0.f, 0.f};
    store_shared_half(address, static_cast<uint16>(quantise_(four)));
  }

 private:
  QuantisedBytes<Range> quantise_;
};

/// 16-bit outputs, and a second output: each output, rounded to 16 bits and quantised to a byte with one given scale.
template <class Element, class Range>
class PackedHalvesAndBytes : public PackedHalves<Element> {
 public:
  static constexpr bool kHasSecond = true;

  __device__ __forceinline__ explicit PackedHalvesAndBytes(const PersistentGemmArguments& args)
      : PackedHalves<Element>(args),
        args_(static_cast<const PersistentByteArguments&>(args)),
        quantise_(*args_.second_scale) {}
  __device__ __forceinline__ void store_second(int token, int output, const uint32 (&pairs)[4]) const {
    uint32 words[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float four[4] = {Pair<Element>::low(pairs[2 * i]), Pair<Element>::high(pairs[2 * i]),
                             Pair<Element>::low(pairs[2 * i + 1]), Pair<Element>::high(pairs[2 * i + 1])};
      words[i] = quantise_(four);
    }
    store_global<8>(static_cast<char*>(args_.second_output) + token * args_.second_stride + output, words[0], words[1]);
  }

 private:
  const PersistentByteArguments& args_;
  QuantisedBytes<Range> quantise_;
};

}  // namespace cubit
