// What joins the denominator of a head's softmax beside its tokens: nothing.
//
// Interface of this role: join(args, head, result), once all parts of a query head's result are merged.
#pragma once

#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"
#include "pipeline/partial_results.cuh"

namespace cubit {

struct NoSink {
  static __device__ __forceinline__ void join(const GqaDecodeArguments&, int, Combined&) {}
};

}  // namespace cubit
