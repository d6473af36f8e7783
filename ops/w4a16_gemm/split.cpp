// How a launch's tiles and stages are dealt out to blocks: from sizes and the device alone.
#include <cubit/w4a16_gemm.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

constexpr int kMostSplits = 256;
constexpr std::int64_t kCounters = kWorkspaceCounterBytes / sizeof(unsigned);

/// Of a number of blocks per multiprocessor the best splits are either as many as fit, or fewer where merging would cost more
/// than they save; a handful of candidates, because every launch asks.
int choose_splits(const Plan& plan, std::int64_t tiles, int stages, const runtime::DeviceFacts& device) {
  constexpr int kMostWaves = 4;
  const int most = std::min(stages, kMostSplits);
  if (tiles * plan.counters_per_tile() > kCounters || most <= 1) return 1;
  int best = 1;
  double best_cost = modelled_stages(plan, tiles, stages, 1, device);
  const auto consider = [&](int splits) {
    const double cost = modelled_stages(plan, tiles, stages, splits, device);
    if (cost >= best_cost) return;
    best = splits;
    best_cost = cost;
  };
  consider(std::clamp(static_cast<int>(std::sqrt(2.0 * stages)), 1, most));
  for (int blocks = 1; blocks <= kMostWaves * plan.blocks_per_sm; ++blocks) {
    const auto fit = static_cast<int>(std::clamp<std::int64_t>(device.multiprocessors * blocks / tiles, 1, most));
    consider(fit);
    if (fit == most) break;
  }
  return best;
}

}  // namespace

/// Waves of blocks, each the stages of the blocks that share a multiprocessor, and a fixed part: its first loads and its last
/// products; then the merge, in which a warp reads the sums of its tile from every split. Fitted to sweeps on an H200: four
/// warps alone on a multiprocessor take a fifth longer per stage than eight.
double modelled_stages(const Plan& plan, std::int64_t tiles, int stages, int splits,
                       const runtime::DeviceFacts& device) {
  constexpr double kFixedStages = 6;
  constexpr double kFourWarpsAlone = 1.22;
  const std::int64_t blocks = tiles * splits;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const std::int64_t waves = (blocks + resident - 1) / resident;
  const std::int64_t sharing =
      std::min<std::int64_t>(plan.blocks_per_sm, (blocks + device.multiprocessors - 1) / device.multiprocessors);
  const int share = (stages + splits - 1) / splits;
  const double slowdown = sharing * plan.warps <= 4 ? kFourWarpsAlone : 1;
  const double merge = splits > 1 ? splits * (0.2 + plan.descriptor.tile_m / 80.0) : 0;
  return static_cast<double>(waves) * (static_cast<double>(share * sharing) * slowdown + kFixedStages) + merge;
}

Split choose_split(const Plan& plan, const cubit_w4a16_gemm_arguments& arguments, const runtime::DeviceFacts& device) {
  require_argument(arguments.decomposition >= CUBIT_W4A16_AUTOMATIC && arguments.decomposition <= CUBIT_W4A16_SPLIT_K,
                   "decomposition", "it must be 0 (automatic), 1 (data-parallel) or 2 (split-K)",
                   arguments.decomposition);
  require_argument(arguments.splits >= 0 && arguments.splits <= kMostSplits, "splits", "it must be from 0 to 256",
                   arguments.splits);
  require_argument(arguments.splits == 0 || arguments.decomposition == CUBIT_W4A16_SPLIT_K, "splits",
                   "it goes with decomposition 2 (split-K) only", arguments.splits);
  Split split;
  const int columns = output_columns(plan.descriptor, arguments.n);
  split.row_tiles = (std::int64_t{arguments.m} + plan.descriptor.tile_m - 1) / plan.descriptor.tile_m;
  split.column_tiles = (columns + plan.block_columns() - 1) / plan.block_columns();
  split.stages = (arguments.k + gemm_lanes::kStageK - 1) / gemm_lanes::kStageK;
  if (split.row_tiles == 0 || arguments.decomposition == CUBIT_W4A16_DATA_PARALLEL) return split;
  split.splits = arguments.splits > 0 ? std::min(arguments.splits, split.stages)
                                      : choose_splits(plan, split.tiles(), split.stages, device);
  if (split.splits > 1 && split.tiles() * plan.counters_per_tile() > kCounters) {
    throw Failure(Status::invalid_argument,
                  fmt::format("splits = {} of {} tiles of rows and columns", split.splits, split.tiles()),
                  fmt::format("a tile of more than one split needs {} of the workspace's {} counters",
                              plan.counters_per_tile(), kCounters),
                  fmt::format("accepted: splits = 0 or 1, or at most {} tiles", kCounters / plan.counters_per_tile()));
  }
  return split;
}

}  // namespace cubit::ops::w4a16_gemm
