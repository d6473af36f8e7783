// Absent attention sink: the softmax denominator of a head contains the tokens only.
//
// Interface of this role: join(args, head, result) adds the sink to a query head's result after all partial results
// have been merged.
#pragma once

#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "pipeline/partial_results.cuh"

namespace cubit {

struct NoSink {
  static __device__ __forceinline__ void join(const GqaDecodeArguments&, int, Combined&) {}
};

}  // namespace cubit
