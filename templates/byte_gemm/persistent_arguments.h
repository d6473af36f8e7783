// Argument of the persistent GEMM kernel whose operands are both bytes, shared by host and device.
#pragma once

#include "kernels/gemm/persistent_gemm_arguments.h"

namespace cubit {

/// PersistentGemmArguments::scales are those of the weights: fp32 [n] or [1].
struct PersistentByteArguments : PersistentGemmArguments {
  const void* activation_scales;  // fp32 [m] or [1]; not read without scales
  const void* output_scale;       // fp32 [1]; read only if outputs are bytes
  // The output, if its outputs are bytes and its rows are no multiple of 16 bytes, which a tensor map needs. Else null.
  void* unmapped_output;
  long long output_stride;  // of unmapped_output
};

}  // namespace cubit
