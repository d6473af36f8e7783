// Activation operand of bytes. The bytes are in natural order along k, and ldmatrix loads them from shared memory.
//
// A step is 64 bytes along k for values of 8 and of 16 bits, so bytes are loaded exactly as 16-bit activations are.
// Interface of an activation operand: see word_activations.cuh.
#pragma once

#include "gemm/matrix_activations.cuh"

namespace cubit {

template <int (*kAt)(int, int)>
struct ByteActivations : MatrixActivations<kAt> {
  static constexpr int kValueBytes = 1;
};

}  // namespace cubit
