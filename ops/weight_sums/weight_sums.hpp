// The operator weight_sums, which adds up the rows of int8 weights for w8a8_gemm with zero points.
#pragma once

#include <cstdint>

#include "ops/argument_table.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& weight_sums_operator();

namespace weight_sums {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Throws Failure(invalid_argument) for sizes that no launch has.
void check_sizes(std::int64_t n, std::int64_t k);

}  // namespace weight_sums
}  // namespace cubit::ops
