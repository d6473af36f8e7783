// Problems of the operator gate_quantize.
#pragma once

#include "check/problem.hpp"
#include "ops/gate_quantize/gate_quantize.hpp"

namespace cubit::check::gate_quantize {

using namespace ops::gate_quantize;

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

std::string random_help();
std::vector<BenchCase> bench_cases();

}  // namespace cubit::check::gate_quantize
