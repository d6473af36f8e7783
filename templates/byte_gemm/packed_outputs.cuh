// Output type of the persistent GEMM with outputs of bytes. Interface of an output type: see gemm/staged_epilogue.cuh.
#pragma once

#include "byte_gemm/arguments.h"
#include "core/copies.cuh"
#include "core/given_scale.cuh"
#include "core/types.cuh"

namespace cubit {

/// Bytes that one given scale quantises. `Range` is one of core/given_scale.cuh.
template <class Range>
class PackedBytes {
 public:
  static constexpr int kBytes = 1;
  static constexpr bool kMayBeUnaligned = true;

  __device__ __forceinline__ explicit PackedBytes(const PersistentGemmArguments& args)
      : quantise_(*static_cast<const float*>(static_cast<const PersistentByteArguments&>(args).output_scale)) {}
  __device__ __forceinline__ void store(uint32 address, const float (&values)[2]) const {
    const float four[4] = {values[0], values[1], 0.f, 0.f};
    store_shared_half(address, static_cast<uint16>(quantise_(four)));
  }

 private:
  QuantisedBytes<Range> quantise_;
};

}  // namespace cubit
