// Problems of the operator merge: partial results of attention, merged in double precision.
#pragma once

#include "check/problem.hpp"
#include "ops/merge/merge.hpp"

namespace cubit::check::merge {

using namespace ops::merge;

/// The number of patterns that `random` accepts.
inline constexpr int kPatterns = 6;

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

std::string random_help();
std::vector<BenchCase> bench_cases();

}  // namespace cubit::check::merge
