// The reference of the operator w4a16_gemm: the values of weights in double precision.
#pragma once

#include <cstdint>
#include <span>

#include "check/problem.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::check::w4a16_gemm {

using namespace ops::w4a16_gemm;

/// The host tensors that hold the weights of one layer.
struct PackedWeights {
  const std::uint32_t* qweight = nullptr;
  const std::uint32_t* qzeros = nullptr;
  const std::uint16_t* scales = nullptr;
  const std::int32_t* g_idx = nullptr;  ///< activation order only
  int n = 0;
  int k = 0;
  const std::uint16_t* dense = nullptr;  ///< format=dense only, which has no other tensor
};
/// The value of the weight (k, n), as the descriptor's format defines it.
double weight_at(const W4a16Gemm& descriptor, const PackedWeights& weights, int k, int n);
/// The values of the weights (first_k, n), (first_k + 1, n) …
void weights_of_column(const W4a16Gemm& descriptor, const PackedWeights& weights, int n, int first_k,
                       std::span<double> values);

}  // namespace cubit::check::w4a16_gemm
