// Problems of the operator kv_append: rotation, quantisation and cache addressing on the host.
#pragma once

#include "check/kv_cache/rows_problem.hpp"
#include "ops/kv_append/kv_append.hpp"

namespace cubit::check::kv_append {

using namespace ops::kv_append;

/// Applies the rotary embedding to the first `rotary_dim` channels of a row in place; see <cubit/kv_append.h>.
void rotate_row(Rotary rotary, int rotary_dim, const float* cosines, const float* sines, float* row);

/// A problem of these tensors. `caches` holds every tensor that a launch writes, as it is before the launch, or no
/// tensor. Checks everything; throws Failure(invalid_argument).
std::unique_ptr<Problem> make_problem_of(const KvAppend& descriptor, Tensors inputs, Tensors caches,
                                         const kv_cache::CacheNumbers& numbers);
std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

std::string random_help();
std::vector<BenchCase> bench_cases();

}  // namespace cubit::check::kv_append
