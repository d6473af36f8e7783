// The reference of the operator w8a8_gemm on the host, element by element.
//
// Tensor cores add up products of e4m3 with few bits, and the reference says how far that may move a result. A step of
// an accumulator adds 32 products along k. Before the addition the 32 products and the accumulator are truncated to
// multiples of a unit, 2^-13 of the power of two in the largest of them. A step therefore loses less than 33 · 2^-13 ·
// the largest magnitude, which is at most the sum of absolute products of the accumulator's steps so far. The bound of
// a result is the sum of these losses over the steps of a chain: all of k with accumulate=fast, and the four steps of
// each 128 values along k with accumulate=promoted. Chains of launches that split k are shorter.
//
// The bound is far from what happens to addends of both signs, whose losses have both signs, too: N steps lose about
// as much as independent errors of one unit, 2^-13 · sqrt(33 · N) of the accumulator. Made-up normal data are held to
// that.
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
  const Tensor* activation_zeros = nullptr;
  const Tensor* weight_sums = nullptr;
  const Tensor* output_scale = nullptr;
  const Tensor* second_scale = nullptr;
  const Tensor* bias = nullptr;
  const Tensor* residual = nullptr;

  int m() const { return static_cast<int>(activations->shape[0]); }
  int n() const { return static_cast<int>(weights->shape[0]); }
  int k() const { return static_cast<int>(activations->shape[1]); }
};

/// An output before it is rounded to its type, the sum of the absolute contributions to it, and the bound of what
/// truncated products of e4m3 may change.
struct Reference {
  double value = 0;
  double contributions = 0;
  double truncation = 0;
};

/// A row of sums over k, exact in double, and of the absolute products.
struct SumRow {
  std::vector<double> sums;      ///< [n]
  std::vector<double> absolute;  ///< [n]
  /// [n] Sums over the steps of tensor cores of the absolute products in the chain up to each step; empty for int8.
  std::vector<double> chains;
};
/// All rows, computed on several threads.
std::vector<SumRow> sums_of_rows(const W8a8Gemm& descriptor, const Operands& operands);

/// The output `column` of row `row` in double precision.
Reference reference_of(const W8a8Gemm& descriptor, const Operands& operands, const SumRow& sums, int row, int column);

/// The sum over k of the weights of a row.
std::int64_t sum_of_weights(const Tensor& weights, int row);

/// What tensor cores lose of sums over k of normal data with accumulate=fast, relative to the sums.
double random_truncation(int k);

/// Whether every rounding of the kernel is stated, so that each byte of an int8 output is exact: integer sums, and no
/// function but relu.
bool has_exact_bytes(const W8a8Gemm& descriptor);
/// The byte of such an output, by the documented fp32 operations.
std::int8_t exact_byte(const W8a8Gemm& descriptor, const Operands& operands, const SumRow& sums, int row, int column);

}  // namespace cubit::check::w8a8_gemm
