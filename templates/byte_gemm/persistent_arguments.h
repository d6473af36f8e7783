// Argument of the persistent GEMM kernel whose operands are both bytes, shared by host and device.
#pragma once

#include "byte_gemm/arguments.h"
#include "kernels/gemm/persistent_gemm_arguments.h"

namespace cubit {

/// PersistentGemmArguments::scales are those of the weights: fp32 [n] or [1].
struct PersistentByteArguments : PersistentGemmArguments, ByteTensors {
  // The output, if its outputs are bytes and its rows are no multiple of 16 bytes, which a tensor map needs. Else null.
  void* unmapped_output;
  long long output_stride;  // of unmapped_output
};

}  // namespace cubit
