// The launch of a problem, described as JSON: see cubit_problem_describe_launch.
#pragma once

#include "check/capi/border.hpp"
#include "check/problem.hpp"

namespace cubit::check {

/// Throws Failure.
Json describe_launch(const Problem& problem, cubit_kernel* kernel, cubit_device* device);

}  // namespace cubit::check
