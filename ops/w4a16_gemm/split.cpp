// How a launch's tiles and stages are dealt out to blocks: from sizes and the device alone.
#include <cubit/w4a16_gemm.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

constexpr int kMostSplits = 256;
constexpr std::int64_t kCounters = kWorkspaceCounterBytes / sizeof(unsigned);

/// Of a number of waves the best splits are either as many as fit, or fewer where reading the partial sums would cost more
/// than they save; a handful of candidates, because every launch asks.
int choose_splits(const Plan& plan, std::int64_t tiles, int stages, const runtime::DeviceFacts& device) {
  constexpr int kMostWaves = 4;
  const int most = std::min(stages, kMostSplits);
  if (tiles * plan.counters_per_tile() > kCounters || most <= 1) return 1;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  int best = 1;
  double best_cost = modelled_stages(plan, tiles, stages, 1, device);
  const auto consider = [&](int splits) {
    const double cost = modelled_stages(plan, tiles, stages, splits, device);
    if (cost >= best_cost) return;
    best = splits;
    best_cost = cost;
  };
  for (int waves = 1; waves <= kMostWaves; ++waves) {
    const auto fit = static_cast<int>(std::clamp<std::int64_t>(waves * resident / tiles, 1, most));
    consider(fit);
    consider(std::clamp(static_cast<int>(std::sqrt(2.0 * waves * stages)), 1, fit));
    if (fit == most) break;
  }
  return best;
}

}  // namespace

/// Waves of blocks, each of its stages and a fixed part; then one block per tile that reads all partial sums, 1 KiB per row
/// and split where a stage is some 16 KiB.
double modelled_stages(const Plan& plan, std::int64_t tiles, int stages, int splits,
                       const runtime::DeviceFacts& device) {
  constexpr double kFixedStages = 2;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const std::int64_t waves = (tiles * splits + resident - 1) / resident;
  const int share = (stages + splits - 1) / splits;
  const double partial_bytes = 4.0 * gemm_lanes::kBlockColumns * plan.descriptor.tile_m;
  const double merge = splits > 1 ? 0.5 * splits * partial_bytes / plan.stage_bytes() : 0;
  return static_cast<double>(waves) * (share + kFixedStages) + merge;
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
  require_argument(split.splits == 1 || split.tiles() * plan.counters_per_tile() <= kCounters, "splits",
                   "more than one needs a counter per warp of each tile of rows and columns, of which there are 4096",
                   arguments.splits);
  return split;
}

}  // namespace cubit::ops::w4a16_gemm
