// Output types with bytes for the loop with mma.sync. Interface of an output type: see gemm/epilogue.cuh.
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

/// 16-bit outputs, and a second output: each output, rounded to 16 bits and quantised to a byte with one given scale.
template <class Element, class Range>
struct HalfAndByteOutputs {
  static __device__ __forceinline__ void store(const GemmArguments& args, int row, int column,
                                               const float (&values)[4]) {
    HalfOutputs<Element>::store(args, row, column, values);
    const auto& own = static_cast<const ByteGemmArguments&>(args);
    float stored[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) stored[i] = Pair<Element>::low(Pair<Element>::pack(values[i], 0.f));
    *reinterpret_cast<uint32*>(static_cast<char*>(own.second_output) + row * own.second_stride + column) =
        QuantisedBytes<Range>(*own.second_scale)(stored);
  }
};

}  // namespace cubit
