// What the launches of all kernel families have in common: the schedule, the workspace, the grid and the kernel's
// parameters. A family's encode_launch() is made of these steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ops/gemm/plan.hpp"
#include "ops/gemm/schedule.hpp"
#include "ops/operator.hpp"
#include "templates/byte_gemm/arguments.h"
#include "templates/weight_format/fused_gemm_arguments.h"

namespace cubit::ops::gemm {

/// Checked sizes of a launch, and the schedule that was chosen for them.
struct ScheduledLaunch {
  Problem problem;
  Schedule schedule;

  bool is_empty() const { return problem.m == 0; }
};

/// A layer behind the first one. Tensors that the format does not have are null.
struct LayerTensors {
  const void* words = nullptr;
  const void* scales = nullptr;
  const void* zeros = nullptr;
  const void* bias = nullptr;
};

/// A launch's tensors that the weight format defines. Tensors that the format does not have are null.
struct WeightTensors {
  const void* words = nullptr;  ///< the weights, packed or not
  const void* scales = nullptr;
  const void* zeros = nullptr;
  const void* group_of_k = nullptr;                 ///< the group of each k, if groups are indexed
  int groups = 0;                                   ///< rows of scales and zeros, if groups are indexed
  ByteTensors bytes = {};                           ///< of kernels with WeightOperand::row_scaling
  std::optional<runtime::TensorMap> word_map = {};  ///< for families that copy weights in boxes
  std::optional<runtime::TensorMap> scale_map = {};
  std::array<LayerTensors, kMostLayers - 1> more = {};  ///< the second and the third layer
};

/// Throws Failure(invalid_argument) as check_sizes() and choose_schedule() do.
ScheduledLaunch schedule_launch(const BlockPlan& block, const Problem& problem, const runtime::DeviceFacts& device);

/// Whether the sizes fit the block's grid and its tensor maps; without the rules of all blocks, see check_sizes().
bool serves_sizes(const BlockPlan& block, const Problem& problem);
/// Whether rows of activations lie at different addresses, as tensor maps require.
bool has_row_stride(const Problem& problem);

/// Throws Failure(invalid_argument) if the block needs such rows, and the launch has others.
void require_row_stride(const BlockPlan& block, const Problem& problem);

/// A launch of no rows.
Launch empty_launch();

/// The kernel's parameters, without those that only one family has.
PackedGemmArguments kernel_parameters(const BlockPlan& block, const ScheduledLaunch& launch,
                                      const WeightTensors& weights, char* workspace);
/// The parameters of kernels of several layers, with the same common part.
FusedGemmArguments fused_parameters(const BlockPlan& block, const Problem& problem, const PackedGemmArguments& common,
                                    const WeightTensors& weights);
/// The parameters of kernels whose operands are both bytes, with the same common part.
ByteGemmArguments byte_parameters(const GemmArguments& common, const WeightTensors& weights);

/// Grid, block, cluster and parameters of a launch.
Launch make_launch(const BlockPlan& block, const Schedule& schedule, std::span<const std::byte> parameters,
                   const runtime::DeviceFacts& device);
Launch make_launch(const BlockPlan& block, const Schedule& schedule, const PackedGemmArguments& parameters,
                   const runtime::DeviceFacts& device);

}  // namespace cubit::ops::gemm
