// Problems of the operator dequantize.
#pragma once

#include "check/problem.hpp"
#include "ops/dequantize/dequantize.hpp"

namespace cubit::check::dequantize {

using namespace ops::dequantize;

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

std::string random_help();
std::vector<BenchCase> bench_cases();

}  // namespace cubit::check::dequantize
