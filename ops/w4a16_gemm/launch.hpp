// What the launches of all kernel families have in common: checks of the public arguments, the workspace, the grid and
// the kernel's parameters. A family's encode() is made of these steps.
#pragma once

#include <cubit/w4a16_gemm.h>

#include <cstddef>
#include <cstdint>

#include "ops/operator.hpp"
#include "ops/w4a16_gemm/plan.hpp"
#include "ops/w4a16_gemm/schedule.hpp"
#include "templates/kernels/w4a16_gemm_arguments.h"

namespace cubit::ops::w4a16_gemm {

/// Checked sizes of a launch, and the schedule that was chosen for them.
struct ScheduledLaunch {
  const cubit_w4a16_gemm_arguments& arguments;
  Schedule schedule;

  bool is_empty() const { return arguments.m == 0; }
};

/// Throws Failure(invalid_argument) for sizes and schedules that the argument struct's documentation rules out.
ScheduledLaunch schedule_launch(const BlockPlan& block, const void* public_arguments,
                                const runtime::DeviceFacts& device);

/// Whether the sizes fit the block's grid and its tensor maps; without the rules of all blocks, see check_sizes().
bool serves_sizes(const BlockPlan& block, const cubit_w4a16_gemm_arguments& arguments);
/// Whether rows of activations lie at different addresses, as tensor maps require.
bool has_row_stride(const cubit_w4a16_gemm_arguments& arguments);

/// Elements from one row of dense weights to the next.
std::int64_t row_stride_of_weights(const cubit_w4a16_gemm_arguments& arguments);

/// A launch of no rows.
Launch empty_launch();

/// Throws Failure(invalid_argument) for pointers and strides that the argument struct's documentation rules out.
void check_tensors(const BlockPlan& block, const cubit_w4a16_gemm_arguments& arguments);

/// Workspace bytes of the partial sums of split-K slices.
std::size_t partial_sum_bytes(const BlockPlan& block, const Schedule& schedule);
/// Workspace bytes of the counters and the partial sums: 0 where no tile is split.
std::size_t split_workspace_bytes(const BlockPlan& block, const Schedule& schedule);
/// The largest of split_workspace_bytes() of this launch and of all launches with fewer rows, which may split more. A
/// workspace of this size therefore serves every batch up to the given one.
std::size_t largest_split_workspace_bytes(const BlockPlan& block, const ScheduledLaunch& launch,
                                          const runtime::DeviceFacts& device);

/// The kernel's parameters, without those that only one family has.
W4a16GemmArguments kernel_parameters(const ScheduledLaunch& launch, char* workspace);

/// Grid, block, cluster and parameters of a launch.
Launch make_launch(const BlockPlan& block, const Schedule& schedule, const W4a16GemmArguments& parameters,
                   const runtime::DeviceFacts& device);

/// Byte offset of the first tensor map in a launch's parameters.
inline constexpr std::size_t kMapsAt = (sizeof(W4a16GemmArguments) + 63) / 64 * 64;
inline constexpr int kMostMaps = 4;

}  // namespace cubit::ops::w4a16_gemm
