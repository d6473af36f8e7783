// How a launch's tiles and stages are dealt out to blocks: from sizes and the device alone, by the model of model.cpp.
#include <cubit/w4a16_gemm.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

/// Of a number of blocks per multiprocessor the best splits are either as many as fit, or fewer where merging would
/// cost more than they save; a handful of candidates, because every launch asks.
int choose_splits(const Plan& plan, std::int64_t tiles, int stages, const runtime::DeviceFacts& device) {
  constexpr int kMostWaves = 4;
  const int most = std::min(stages, kMostSplits);
  if (tiles * plan.counters_per_tile() > merge_counters(plan) || most <= 1) return 1;
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
    if (has_pairs(plan) && fit > 2) consider(fit / 2 * 2);  // which pairs of blocks add up first
    if (fit == most) break;
  }
  return best;
}

/// Blocks of few columns: parts of k only where tiles leave multiprocessors idle, and where that saves more than
/// merging costs.
int choose_splits_of_teams(const Plan& plan, Split split, const runtime::DeviceFacts& device) {
  constexpr int kMostParts = 16;
  if (split.tiles() * plan.counters_per_tile() > merge_counters(plan)) return 1;
  const auto most = std::min<std::int64_t>({device.multiprocessors / split.tiles(), split.stages, kMostParts});
  int best = 1;
  double best_cost = modelled_microseconds(plan, split, device);
  for (split.splits = 2; split.splits <= most; ++split.splits) {
    const double cost = modelled_microseconds(plan, split, device);
    if (cost >= best_cost) continue;
    best = split.splits;
    best_cost = cost;
  }
  return best;
}

/// Split-K, in order or not.
bool is_split_k(const cubit_w4a16_gemm_arguments& arguments) {
  return arguments.decomposition == CUBIT_W4A16_SPLIT_K || arguments.decomposition == CUBIT_W4A16_SPLIT_K_ATOMIC;
}

/// Blocks of few columns have one tile, and all of its k or a part.
void check_decomposition_of_teams(const Plan& plan, const cubit_w4a16_gemm_arguments& arguments) {
  const bool shares = shares_k(plan);
  if (plan.teams == 1 || arguments.decomposition <= (shares ? CUBIT_W4A16_SPLIT_K : CUBIT_W4A16_DATA_PARALLEL)) return;
  const std::string has = fmt::format("of family {} a block of {} columns has", plan.family, plan.descriptor.tile_n);
  throw Failure(Status::invalid_argument,
                fmt::format("decomposition = {} of {}", arguments.decomposition, plan.descriptor.text()),
                has + (shares ? " one tile" : " all of k"),
                fmt::format("accepted: {}, or a descriptor without tile_n", shares ? "0, 1 or 2" : "0 or 1"));
}

bool can_share(const Plan& plan, const Split& split) {
  return split.tiles() * plan.counters_per_tile() <= merge_counters(plan) &&
         split.tiles() * split.stages < std::numeric_limits<int>::max();
}

/// Pairs have two counters for each warp and tile, and a grid whose last dimension is tiles of rows.
bool can_pair(const Plan& plan, const Split& split) {
  constexpr std::int64_t kMostRowTiles = 65535;
  return has_pairs(plan) && !split.atomic && split.blocks == 0 && split.splits % 2 == 0 &&
         split.row_tiles <= kMostRowTiles && split.tiles() * 2 * plan.counters_per_tile() <= merge_counters(plan);
}

void set_shares(Split& split, std::int64_t blocks) {
  const std::int64_t total = split.tiles() * split.stages;
  split.blocks = static_cast<int>(std::min(blocks, total));
  split.splits = std::min(split.blocks, most_parts(split.stages, total / split.blocks));
}

/// Even shares where they save more than they cost.
void choose_shares(const Plan& plan, Split& split, const runtime::DeviceFacts& device) {
  if (!can_share(plan, split)) return;
  double best = modelled_stages(plan, split.tiles(), split.stages, split.splits, device);
  std::int64_t blocks = 0;
  for (int sharing = 1; sharing <= plan.blocks_per_sm; ++sharing) {
    const int candidate = sharing * device.multiprocessors;
    if (split.tiles() * split.stages < candidate) break;
    const double cost = modelled_stages_of_shares(plan, split.tiles(), split.stages, candidate, device);
    if (cost >= best) continue;
    best = cost;
    blocks = candidate;
  }
  if (blocks > 0) set_shares(split, blocks);
}

/// Of any launch with these columns and k's: what the model chooses for few rows on the device that it was fitted to.
int choose_invariant_splits(std::int64_t column_tiles, int stages) {
  Plan few_rows;
  few_rows.blocks_per_sm = 3;
  return choose_splits(few_rows, column_tiles, stages, h200());
}

/// The parts of k follow from n and k alone; who adds them does not change the sum. Where tiles alone fill the device,
/// or the counters do not suffice, a block computes all parts of its tiles one after another.
void choose_invariant(const Plan& plan, const cubit_w4a16_gemm_arguments& arguments, Split& split,
                      const runtime::DeviceFacts& device) {
  split.splits = arguments.splits > 0 ? std::min(arguments.splits, split.stages)
                                      : choose_invariant_splits(split.column_tiles, split.stages);
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const bool has_counters = split.tiles() * plan.counters_per_tile() <= merge_counters(plan);
  if (split.splits == 1 || (split.tiles() < resident && has_counters)) return;
  split.turns = static_cast<int>(std::min(split.tiles(), resident));
}

}  // namespace

std::int64_t merge_counters(const Plan& plan) {
  return kWorkspaceCounters - (reorders_activations(plan) ? kReorderCounters : 0);
}

void check_decomposition(const W4a16Gemm& descriptor, int decomposition) {
  require_argument(decomposition >= CUBIT_W4A16_AUTOMATIC && decomposition <= CUBIT_W4A16_SPLIT_K_ATOMIC,
                   "decomposition",
                   "it must be 0 (automatic), 1 (data-parallel), 2 (split-K), 3 (stream-K) or 4 (split-K by atomics)",
                   decomposition);
  const auto refuse = [&](const char* why, const char* accepted) {
    throw Failure(Status::invalid_argument, fmt::format("decomposition = {} of {}", decomposition, descriptor.text()),
                  why, accepted);
  };
  if (decomposition == CUBIT_W4A16_STREAM_K && descriptor.batch_invariant)
    refuse("even shares of all tiles, and with them the order of k, depend on the number of rows",
           "accepted: 0, 1 or 2, or a descriptor without batch_invariant");
  if (decomposition != CUBIT_W4A16_SPLIT_K_ATOMIC || descriptor.atomic_splits) return;
  if (descriptor.batch_invariant)
    refuse("sums that atomics add have no order of k, which batch_invariant=true wants",
           "accepted: 0, 1 or 2, or a descriptor with atomic_splits=true and without batch_invariant");
  refuse("its kernel adds sums of parts in order alone, with the same bits at every launch",
         "accepted: 0 to 3, or a descriptor with atomic_splits=true, which goes with tile_n=256");
}

Split choose_split(const Plan& plan, const cubit_w4a16_gemm_arguments& arguments, const runtime::DeviceFacts& device) {
  require_argument(arguments.splits >= 0 && arguments.splits <= kMostSplits, "splits", "it must be from 0 to 256",
                   arguments.splits);
  require_argument(arguments.splits == 0 || is_split_k(arguments), "splits",
                   "it goes with decompositions 2 and 4 (split-K) only", arguments.splits);
  check_decomposition_of_teams(plan, arguments);
  check_decomposition(plan.descriptor, arguments.decomposition);
  Split split;
  const int columns = output_columns(plan.descriptor, arguments.n);
  split.row_tiles = (std::int64_t{arguments.m} + plan.descriptor.tile_m - 1) / plan.descriptor.tile_m;
  split.column_tiles = (columns + plan.block_columns() - 1) / plan.block_columns();
  split.stages = (arguments.k + gemm_lanes::kStageK - 1) / gemm_lanes::kStageK;
  if (split.row_tiles == 0 || arguments.decomposition == CUBIT_W4A16_DATA_PARALLEL || !shares_k(plan)) return split;
  if (plan.descriptor.batch_invariant) {
    choose_invariant(plan, arguments, split, device);
    return split;
  }
  if (arguments.decomposition == CUBIT_W4A16_STREAM_K) {
    if (!can_share(plan, split)) {
      throw Failure(
          Status::invalid_argument,
          fmt::format("decomposition = 3 of {} tiles of rows and columns, {} stages of k each", split.tiles(),
                      split.stages),
          fmt::format(
              "a tile needs {} of the workspace's {} counters for merges, and all stages are counted in 31 bits",
              plan.counters_per_tile(), merge_counters(plan)),
          fmt::format("accepted: at most {} tiles of together below 2^31 stages, or another decomposition",
                      merge_counters(plan) / plan.counters_per_tile()));
    }
    set_shares(split, std::int64_t{device.multiprocessors} * plan.blocks_per_sm);
    return split;
  }
  split.splits = arguments.splits > 0     ? std::min(arguments.splits, split.stages)
                 : has_copied_teams(plan) ? choose_splits_of_teams(plan, split, device)
                                          : choose_splits(plan, split.tiles(), split.stages, device);
  if (split.splits > 1 && split.tiles() * plan.counters_per_tile() > merge_counters(plan)) {
    throw Failure(
        Status::invalid_argument,
        fmt::format("splits = {} of {} tiles of rows and columns", split.splits, split.tiles()),
        fmt::format("a tile of more than one split needs {} of the workspace's {} counters for merges",
                    plan.counters_per_tile(), merge_counters(plan)),
        fmt::format("accepted: splits = 0 or 1, or at most {} tiles", merge_counters(plan) / plan.counters_per_tile()));
  }
  if (plan.teams > 1) return split;
  if (arguments.decomposition == CUBIT_W4A16_AUTOMATIC) choose_shares(plan, split, device);
  split.atomic = arguments.decomposition == CUBIT_W4A16_SPLIT_K_ATOMIC && split.splits > 1;
  split.paired = can_pair(plan, split);
  return split;
}

}  // namespace cubit::ops::w4a16_gemm
