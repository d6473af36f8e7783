// What weights and functions of the operator w4a16_gemm mean, in double precision.
#pragma once

#include <cstdint>

#include "check/problem.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::check::w4a16_gemm {

using namespace ops::w4a16_gemm;

/// The weights of a host tensor as doubles, by the formats' definition.
struct PackedWeights {
  const std::uint32_t* qweight = nullptr;
  const std::uint32_t* qzeros = nullptr;
  const std::uint16_t* scales = nullptr;
  const std::int32_t* g_idx = nullptr;  ///< activation order only
  int n = 0;
  int k = 0;
};
double weight_at(const W4a16Gemm& descriptor, const PackedWeights& weights, int k, int n);

double apply_function(GemmFunction function, double x);

}  // namespace cubit::check::w4a16_gemm
