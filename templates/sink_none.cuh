// What joins the denominator of a head's softmax beside its tokens: nothing.
//
// Interface of this role: join(args, head, result), once all parts of a query head's result are merged.
#pragma once

#include "gqa_decode_arguments.h"
#include "parts.cuh"
#include "types.cuh"

namespace cubit {

struct NoSink {
  static __device__ __forceinline__ void join(const GqaDecodeArguments&, int, Combined&) {}
};

}  // namespace cubit
