// What joins the denominator of a head's softmax beside its tokens: e to a number of the head, as if of a token whose
// value is zero. Interface: see sink_none.cuh.
#pragma once

#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"
#include "pipeline/partial_results.cuh"

namespace cubit {

struct LearnedSink {
  static __device__ __forceinline__ void join(const GqaDecodeArguments& args, int head, Combined& result) {
    const float sink = args.sinks[head] * kLog2e;
    const float reference = maximum(result.reference, sink);
    scale(result, exp2_fast(result.reference - reference));
    result.reference = reference;
    result.sum += exp2_fast(sink - reference);
  }
};

}  // namespace cubit
