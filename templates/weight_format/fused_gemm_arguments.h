// Argument of GEMM kernels that multiply activations by the packed weights of two or three layers, shared by host and
// device.
#pragma once

#include "weight_format/packed_gemm_arguments.h"

namespace cubit {

/// A layer behind the first one. Its tensors are those of PackedGemmArguments, with the layer's own columns.
struct FusedLayerArguments {
  const void* weights;
  const void* scales;
  const void* qzeros;
  const void* bias;
  int first_column;  // in the columns of all layers, which are side by side
  int first_tile;    // in the column tiles of all layers; not read if the epilogue is gated
};

/// PackedGemmArguments has the tensors of the first layer, and in `n` the columns of all layers. If there are two
/// layers, the third one begins behind the last column and behind the last tile.
struct FusedGemmArguments : PackedGemmArguments {
  FusedLayerArguments more[2];
};

}  // namespace cubit
