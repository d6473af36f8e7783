// Arguments of GEMM kernels whose operands are both bytes, shared by host and device.
#pragma once

#include "kernels/gemm/gemm_arguments.h"
#include "kernels/gemm/persistent_gemm_arguments.h"

namespace cubit {

/// Tensors that these kernels read and write in addition to the tensors of every GEMM.
struct ByteTensors {
  const void* activation_scales;  // fp32 [m] or [1]; not read without scales
  const void* output_scale;       // fp32 [1]; read only if outputs are bytes
  const int* activation_zeros;    // [m] or [1], as activation_scales; read only with zero points
  const int* weight_sums;         // [n], the sums of the rows of the weights; read only with zero points
  const float* second_scale;      // [1]; read only with second outputs
  void* second_output;            // bytes [m, output columns]; written only with second outputs
  long long second_stride;        // bytes from row to row of second_output
};

/// GemmArguments::weights are bytes [n, k]. GemmArguments::scales are the scales of the weights, fp32 [n] or [1].
struct ByteGemmArguments : GemmArguments, ByteTensors {};

/// Argument of the persistent kernel. PersistentGemmArguments::scales are the scales of the weights, fp32 [n] or [1].
struct PersistentByteArguments : PersistentGemmArguments, ByteTensors {};

}  // namespace cubit
