// Problems of the operator w8a8_gemm. The inputs of a problem are dense host tensors in the order of the argument
// table: activations, weights, and what else the descriptor has.
#pragma once

#include "check/problem.hpp"
#include "ops/w8a8_gemm/w8a8_gemm.hpp"

namespace cubit::check::w8a8_gemm {

using namespace ops::w8a8_gemm;

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> given, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

std::string random_help();
std::vector<BenchCase> bench_cases();
std::vector<Decomposition> decompositions();

}  // namespace cubit::check::w8a8_gemm
