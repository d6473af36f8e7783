// Output type of GEMMs whose outputs are bytes. Interface of an output type: see gemm/epilogue.cuh.
#pragma once

#include "byte_gemm/arguments.h"
#include "core/given_scale.cuh"
#include "core/types.cuh"
#include "gemm/epilogue.cuh"

namespace cubit {

/// byte = round(result / output scale): see QuantisedBytes. `Range` is one of core/given_scale.cuh.
template <class Range>
struct ByteOutputs {
  static __device__ __forceinline__ void store(const GemmArguments& args, int row, int column,
                                               const float (&values)[4]) {
    const float scale = *static_cast<const float*>(static_cast<const ByteGemmArguments&>(args).output_scale);
    *reinterpret_cast<uint32*>(static_cast<char*>(args.output) + row * args.output_stride + column) =
        QuantisedBytes<Range>(scale)(values);
  }
};

}  // namespace cubit
