// Argument of GEMM kernels whose operands are both bytes, shared by host and device.
#pragma once

#include "kernels/gemm/gemm_arguments.h"

namespace cubit {

/// GemmArguments::weights are bytes [n, k], and GemmArguments::scales are those of the weights: fp32 [n] or [1].
struct ByteGemmArguments : GemmArguments {
  const void* activation_scales;  // fp32 [m] or [1]; not read without scales
  const void* output_scale;       // fp32 [1]; read only if outputs are bytes
};

}  // namespace cubit
