// Problems of the operator w4_quantize, and its reference.
#pragma once

#include "check/problem.hpp"
#include "ops/w4_quantize/w4_quantize.hpp"

namespace cubit::check::w4_quantize {

using namespace ops::w4_quantize;

/// The tensors that a launch writes. All are exact, bit for bit, except rms_error, which is in double precision.
struct Quantised {
  std::vector<std::uint32_t> qweight;
  std::vector<std::uint32_t> qzeros;  ///< empty if the format stores no zeros
  std::vector<std::uint16_t> scales;  ///< fp16 [groups, n]
  std::vector<float> max_error;       ///< [groups, n]
  std::vector<double> rms_error;      ///< [groups, n]
};
/// Quantises `weights`, a dense [n, k] tensor of 16-bit values of the descriptor's input type.
Quantised quantise(const W4Quantize& descriptor, const std::uint16_t* weights, std::int64_t n, std::int64_t k);

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

std::string random_help();
std::vector<BenchCase> bench_cases();

}  // namespace cubit::check::w4_quantize
