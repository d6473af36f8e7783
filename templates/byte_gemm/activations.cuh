// Activation operand of bytes in natural order along k, which ldmatrix loads from shared memory.
//
// A step is 64 bytes along k whatever the type, so that the loads are those of 16-bit activations. Interface of an
// activation operand: see word_activations.cuh.
#pragma once

#include "gemm/matrix_activations.cuh"

namespace cubit {

template <int (*kAt)(int, int)>
struct ByteActivations : MatrixActivations<kAt> {
  static constexpr int kValueBytes = 1;
};

}  // namespace cubit
