// Length of a sequence.
#pragma once

#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"

namespace cubit {

/// Tokens of a sequence: the length in device memory, limited by the host's upper bound.
__device__ __forceinline__ int length_of(const GqaDecodeArguments& args, int batch) {
  if (args.lengths == nullptr) return args.max_length;
  return max(0, min(args.max_length, args.lengths[batch]));
}

}  // namespace cubit
