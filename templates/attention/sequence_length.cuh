// How long a sequence is.
#pragma once

#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"

namespace cubit {

/// Tokens of a sequence: what the device says, within the host's bound.
__device__ __forceinline__ int length_of(const GqaDecodeArguments& args, int batch) {
  if (args.lengths == nullptr) return args.max_length;
  return max(0, min(args.max_length, args.lengths[batch]));
}

}  // namespace cubit
