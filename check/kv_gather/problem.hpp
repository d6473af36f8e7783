// Problems of the operator kv_gather: rows of a cache, dequantised on the host.
#pragma once

#include "check/problem.hpp"
#include "ops/kv_gather/kv_gather.hpp"

namespace cubit::check::kv_gather {

using namespace ops::kv_gather;

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

std::string random_help();
std::vector<BenchCase> bench_cases();

}  // namespace cubit::check::kv_gather
