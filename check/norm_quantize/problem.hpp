// Problems of the operator norm_quantize.
#pragma once

#include "check/problem.hpp"
#include "ops/norm_quantize/norm_quantize.hpp"

namespace cubit::check::norm_quantize {

using namespace ops::norm_quantize;

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

std::string random_help();
std::vector<BenchCase> bench_cases();

}  // namespace cubit::check::norm_quantize
