// Problems of the operator weight_sums.
#pragma once

#include "check/problem.hpp"
#include "ops/weight_sums/weight_sums.hpp"

namespace cubit::check::weight_sums {

using namespace ops::weight_sums;

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

std::string random_help();
std::vector<BenchCase> bench_cases();

}  // namespace cubit::check::weight_sums
