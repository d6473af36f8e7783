// Checks of the shapes of packed weights against the descriptor. An error says what the tensors look like and which
// field of the descriptor reads them.
#pragma once

#include "check/host_tensors.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::check::w4a16_gemm {

/// The tensors of packed weights, and the sizes that other tensors give.
struct PackedShapes {
  const Tensor& qweight;
  const Tensor& scales;
  const Tensor* qzeros = nullptr;  ///< null if there is none
  std::int64_t n = 0;
  std::int64_t k = 0;  ///< of the activations
};

/// Refuses words of another format or of another number of bits. Other wrong shapes are left to the check of shapes.
void check_looks(const W4a16Gemm& descriptor, const PackedShapes& packed);

/// Refuses another number of groups than the descriptor has; with activation order a layer has any number of groups,
/// because a slice of k has all groups of the layer. The shapes alone do not say which size is wrong, so the
/// error says what is inconsistent and asks for no other group size.
void check_group_size(const W4a16Gemm& descriptor, const PackedShapes& packed);

}  // namespace cubit::check::w4a16_gemm
