// The reference of the operator w8a8_gemm on the host, element by element.
#pragma once

#include <cstdint>
#include <vector>

#include "check/host_tensors.hpp"
#include "ops/w8a8_gemm/w8a8_gemm.hpp"

namespace cubit::check::w8a8_gemm {

/// The tensors of a problem; a tensor that the descriptor does not have is null.
struct Operands {
  const Tensor* activations = nullptr;
  const Tensor* weights = nullptr;
  const Tensor* activation_scales = nullptr;
  const Tensor* weight_scales = nullptr;
  const Tensor* output_scale = nullptr;
  const Tensor* bias = nullptr;
  const Tensor* residual = nullptr;

  int m() const { return static_cast<int>(activations->shape[0]); }
  int n() const { return static_cast<int>(weights->shape[0]); }
  int k() const { return static_cast<int>(activations->shape[1]); }
};

/// An output before it is rounded to its type, and the sum of the absolute contributions to it.
struct Reference {
  double value = 0;
  double contributions = 0;
};

/// A row of sums over k, exact in double, and of the absolute products.
struct SumRow {
  std::vector<double> sums;      ///< [n]
  std::vector<double> absolute;  ///< [n]
};
/// All rows, computed on several threads.
std::vector<SumRow> sums_of_rows(const W8a8Gemm& descriptor, const Operands& operands);

/// The output `column` of row `row` in double precision.
Reference reference_of(const W8a8Gemm& descriptor, const Operands& operands, const SumRow& sums, int row, int column);

/// Whether every rounding of the kernel is stated, so that each byte of an int8 output is exact: integer sums, and no
/// function but relu.
bool has_exact_bytes(const W8a8Gemm& descriptor);
/// The byte of such an output, by the documented fp32 operations.
std::int8_t exact_byte(const W8a8Gemm& descriptor, const Operands& operands, const SumRow& sums, int row, int column);

}  // namespace cubit::check::w8a8_gemm
