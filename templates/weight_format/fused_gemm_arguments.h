// Argument of GEMM kernels that multiply activations by the packed weights of two or three layers, shared by host and
// device.
#pragma once

#include "weight_format/packed_gemm_arguments.h"

namespace cubit {

/// The second or the third layer. The tensors are as in PackedGemmArguments, with the columns of this layer as n.
struct FusedLayerArguments {
  const void* weights;
  const void* scales;
  const void* qzeros;
  const void* bias;
  int first_column;  // in the columns of all layers, which are side by side
  int first_tile;    // index in the column tiles of all layers; not read if the epilogue is gated
};

/// PackedGemmArguments has the tensors of the first layer, and in `n` the number of columns of all layers together. If
/// there are two layers, more[1] begins behind the last column and behind the last tile.
struct FusedGemmArguments : PackedGemmArguments {
  FusedLayerArguments more[2];
};

}  // namespace cubit
