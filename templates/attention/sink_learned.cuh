// Learned attention sink: the softmax denominator of a head gets an additional term, as if the sequence had one more
// token whose score is a learned number of the head and whose value is zero. Interface: see sink_none.cuh.
#pragma once

#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
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
