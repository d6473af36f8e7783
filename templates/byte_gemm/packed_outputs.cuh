// Output types of the persistent GEMM whose operands are bytes, beside those of 16 bits. Interface of an output type:
// see gemm/staged_epilogue.cuh.
#pragma once

#include "byte_gemm/persistent_arguments.h"
#include "core/copies.cuh"
#include "core/given_scale.cuh"
#include "core/types.cuh"

namespace cubit {

/// Integer sums, which pass through the epilogue's floats as their bits: see IntegerSums.
struct PackedIntegers {
  static constexpr int kBytes = 4;
  static constexpr bool kMayBeUnaligned = false;

  __device__ __forceinline__ explicit PackedIntegers(const PersistentGemmArguments&) {}
  __device__ __forceinline__ void store(uint32 address, const float (&values)[2]) const {
    const uint32 words[2] = {__float_as_uint(values[0]), __float_as_uint(values[1])};
    store_shared(address, words);
  }
};

/// Bytes that one given scale quantises. `Range` is one of core/given_scale.cuh.
template <class Range>
class PackedBytes {
 public:
  static constexpr int kBytes = 1;
  static constexpr bool kMayBeUnaligned = true;

  __device__ __forceinline__ explicit PackedBytes(const PersistentGemmArguments& args)
      : args_(static_cast<const PersistentByteArguments&>(args)),
        quantise_(*static_cast<const float*>(args_.output_scale)) {}
  __device__ __forceinline__ void store(uint32 address, const float (&values)[2]) const {
    const float four[4] = {values[0], values[1], 0.f, 0.f};
    store_shared_half(address, static_cast<uint16>(quantise_(four)));
  }

  __device__ __forceinline__ char* rows() const { return static_cast<char*>(args_.unmapped_output); }
  __device__ __forceinline__ int64 row_bytes() const { return args_.output_stride; }

 private:
  const PersistentByteArguments& args_;
  QuantisedBytes<Range> quantise_;
};

}  // namespace cubit
