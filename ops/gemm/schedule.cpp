// Choice of a launch's schedule by the performance model of model.cpp, and the rules for schedules that a caller names.
#include "ops/gemm/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "templates/gemm/persistent_gemm_lanes.h"

namespace cubit::ops::gemm {
namespace {

/// Whether the workspace has enough counters for all tiles to be split.
bool has_counters(const BlockPlan& block, std::int64_t tiles) {
  return tiles * block.counters_per_tile <= block.merge_counters;
}

/// Of a number of blocks per multiprocessor the best split-K factor either fills the multiprocessors, or is smaller
/// because merging would cost more than the blocks save. Only a handful of candidates is tried, because every launch
/// asks.
int choose_splits(const BlockPlan& block, std::int64_t tiles, int stages, const runtime::DeviceFacts& device) {
  constexpr int kMostWaves = 4;
  const int most = std::min(stages, kMostSplits);
  if (!has_counters(block, tiles) || most <= 1) return 1;
  int best = 1;
  double best_cost = modelled_stages(block, tiles, stages, 1, device);
  const auto consider = [&](int splits) {
    const double cost = modelled_stages(block, tiles, stages, splits, device);
    if (cost >= best_cost) return;
    best = splits;
    best_cost = cost;
  };
  consider(std::clamp(static_cast<int>(std::sqrt(2.0 * stages)), 1, most));
  for (int blocks = 1; blocks <= kMostWaves * block.blocks_per_sm; ++blocks) {
    const auto fit = static_cast<int>(std::clamp<std::int64_t>(device.multiprocessors * blocks / tiles, 1, most));
    consider(fit);
    if (block.has_clusters && fit > 2) consider(fit / 2 * 2);  // clusters add up an even number of slices
    if (fit == most) break;
  }
  return best;
}

/// Blocks of fewer than 256 columns split k only where tiles leave multiprocessors idle, and where that saves more than
/// merging costs.
int choose_splits_of_narrow_blocks(const BlockPlan& block, Schedule schedule, const runtime::DeviceFacts& device) {
  constexpr int kMostSlices = 16;
  if (!has_counters(block, schedule.tiles())) return 1;
  const auto most = std::min<std::int64_t>({device.multiprocessors / schedule.tiles(), schedule.stages, kMostSlices});
  int best = 1;
  double best_cost = modelled_microseconds(block, schedule, device);
  for (schedule.splits = 2; schedule.splits <= most; ++schedule.splits) {
    const double cost = modelled_microseconds(block, schedule, device);
    if (cost >= best_cost) continue;
    best = schedule.splits;
    best_cost = cost;
  }
  return best;
}

bool is_split_k(const Problem& problem) {
  return problem.decomposition == Decomposition::split_k || problem.decomposition == Decomposition::split_k_atomic;
}

/// A block of fewer than 256 columns has one tile, and either all of the tile's k or one slice.
void check_decomposition_of_narrow_blocks(const BlockPlan& block, const Problem& problem) {
  const Decomposition most = block.splits_k ? Decomposition::split_k : Decomposition::data_parallel;
  if (block.k_partitions == 1 || problem.decomposition <= most) return;
  throw Failure(Status::invalid_argument,
                fmt::format("decomposition = {} of {}", static_cast<int>(problem.decomposition), block.descriptor.text),
                fmt::format("in family {} a block of {} columns has {}", block.family, block.descriptor.tile_n,
                            block.splits_k ? "one tile" : "all of k"),
                fmt::format("accepted: {}, or a descriptor without tile_n", block.splits_k ? "0, 1 or 2" : "0 or 1"));
}

bool can_stream_k(const BlockPlan& block, const Schedule& schedule) {
  return has_counters(block, schedule.tiles()) && schedule.tiles() * schedule.stages < std::numeric_limits<int>::max();
}

/// A cluster needs twice as many counters, and its grid has row tiles as the last dimension.
bool can_cluster(const BlockPlan& block, const Schedule& schedule) {
  constexpr std::int64_t kMostRowTiles = 65535;
  return block.has_clusters && !schedule.atomic && schedule.stream_k_blocks == 0 && schedule.splits % 2 == 0 &&
         schedule.row_tiles <= kMostRowTiles && has_counters(block, 2 * schedule.tiles());
}

void set_stream_k(Schedule& schedule, std::int64_t blocks) {
  const std::int64_t total = schedule.tiles() * schedule.stages;
  schedule.stream_k_blocks = static_cast<int>(std::min(blocks, total));
  schedule.splits = std::min(schedule.stream_k_blocks, most_slices(schedule.stages, total / schedule.stream_k_blocks));
}

/// Takes balanced shares (stream-K) where they save more than they cost.
void consider_stream_k(const BlockPlan& block, Schedule& schedule, const runtime::DeviceFacts& device) {
  if (!can_stream_k(block, schedule)) return;
  double best = modelled_stages(block, schedule.tiles(), schedule.stages, schedule.splits, device);
  std::int64_t blocks = 0;
  for (int sharing = 1; sharing <= block.blocks_per_sm; ++sharing) {
    const int candidate = sharing * device.multiprocessors;
    if (schedule.tiles() * schedule.stages < candidate) break;
    const double cost = modelled_stream_k_stages(block, schedule.tiles(), schedule.stages, candidate, device);
    if (cost >= best) continue;
    best = cost;
    blocks = candidate;
  }
  if (blocks > 0) set_stream_k(schedule, blocks);
}

/// The split-K factor of any batch-invariant launch with these columns and k's: the model's choice for few rows on the
/// device that the model was fitted to.
int choose_invariant_splits(std::int64_t column_tiles, int stages) {
  BlockPlan few_rows;
  few_rows.descriptor.tile_m = 16;  // the cost of a merge grows with the rows
  few_rows.blocks_per_sm = 3;
  return choose_splits(few_rows, column_tiles, stages, h200());
}

/// The slices of k follow from n and k alone, and the sum does not depend on which block adds up the slices. Where
/// tiles alone fill the device, or the counters do not suffice, one block computes all slices of a tile one after
/// another.
void choose_invariant(const BlockPlan& block, const Problem& problem, Schedule& schedule,
                      const runtime::DeviceFacts& device) {
  schedule.splits = problem.splits > 0 ? std::min(problem.splits, schedule.stages)
                                       : choose_invariant_splits(schedule.column_tiles, schedule.stages);
  const std::int64_t resident = block.resident_blocks(device.multiprocessors);
  if (schedule.splits == 1 || (schedule.tiles() < resident && has_counters(block, schedule.tiles()))) return;
  schedule.fixed_order_blocks = static_cast<int>(std::min(schedule.tiles(), resident));
}

void require_stream_k(const BlockPlan& block, const Schedule& schedule) {
  if (can_stream_k(block, schedule)) return;
  throw Failure(
      Status::invalid_argument,
      fmt::format("decomposition = 3 of {} tiles of rows and columns, {} stages of k each", schedule.tiles(),
                  schedule.stages),
      fmt::format("a tile needs {} of the workspace's {} counters for merges, and all stages are counted in 31 bits",
                  block.counters_per_tile, block.merge_counters),
      fmt::format("accepted: at most {} tiles of together below 2^31 stages, or another decomposition",
                  block.merge_counters / block.counters_per_tile));
}

void require_split_counters(const BlockPlan& block, const Schedule& schedule) {
  if (schedule.splits == 1 || has_counters(block, schedule.tiles())) return;
  throw Failure(
      Status::invalid_argument,
      fmt::format("splits = {} of {} tiles of rows and columns", schedule.splits, schedule.tiles()),
      fmt::format("a tile of more than one split needs {} of the workspace's {} counters for merges",
                  block.counters_per_tile, block.merge_counters),
      fmt::format("accepted: splits = 0 or 1, or at most {} tiles", block.merge_counters / block.counters_per_tile));
}

void check_arguments(const BlockPlan& block, const Problem& problem) {
  require_argument(problem.splits >= 0 && problem.splits <= kMostSplits, "splits", "it must be from 0 to 256",
                   problem.splits);
  require_argument(problem.splits == 0 || is_split_k(problem), "splits",
                   "it goes with decompositions 2 and 4 (split-K) only", problem.splits);
  check_decomposition_of_narrow_blocks(block, problem);
  check_decomposition(block.descriptor, problem.decomposition);
}

void check_arguments_of_clusters(const BlockPlan& block, const Problem& problem) {
  if (problem.splits <= 2) return;
  throw Failure(Status::invalid_argument, fmt::format("splits = {} of {}", problem.splits, block.descriptor.text),
                fmt::format("in family {} the two blocks of a cluster compute two tiles, or two slices of one tile",
                            block.family),
                "accepted: 0, 1 or 2");
}

[[noreturn]] void refuse_stream_k_of_clusters(const BlockPlan& block, const Schedule& parallel,
                                              const runtime::DeviceFacts& device) {
  throw Failure(
      Status::invalid_argument,
      fmt::format("decomposition = 3 of {} tiles, {} stages of k each", parallel.tiles(), parallel.stages),
      fmt::format("each of {} clusters takes at least {} stages and needs {} of the workspace's {} counters, and "
                  "all stages are counted in 31 bits",
                  block.resident_clusters(device.multiprocessors), persistent_lanes::kUnitSlabs,
                  2 * persistent_lanes::kConsumerWarps, block.merge_counters),
      "accepted: more tiles or k's, or another decomposition");
}

/// Half of k each for the two blocks of a cluster, which have the same columns; nothing if k has one slice.
std::optional<Schedule> split_in_clusters(const BlockPlan& block, const Problem& problem, const Schedule& parallel) {
  if (block.first_slice(parallel.stages) >= parallel.stages) return std::nullopt;
  Schedule split = parallel;
  const int columns = block.block_columns() / 2;
  split.splits = 2;
  split.clustered = true;
  split.column_tiles = (output_columns(block.descriptor, problem.n) + columns - 1) / columns;
  constexpr std::int64_t kMostClusters = std::numeric_limits<int>::max() / 2;  // each has one tile
  if (split.tiles() <= kMostClusters) return split;
  if (problem.splits < 2) return std::nullopt;
  throw Failure(Status::invalid_argument, fmt::format("splits = 2 of {} tiles", split.tiles()),
                fmt::format("a launch has at most {} clusters of two blocks, and each has one tile", kMostClusters),
                "accepted: 0 or 1");
}

/// Equal shares of the last tiles for all clusters: of the tiles that whole rounds of clusters leave over, and of the
/// tiles of one round, so that few clusters share a tile. Nothing if a cluster's share were empty.
std::optional<Schedule> share_among_clusters(const BlockPlan& block, const Schedule& parallel,
                                             const runtime::DeviceFacts& device) {
  constexpr int kUnit = persistent_lanes::kUnitSlabs;
  const std::int64_t clusters = block.resident_clusters(device.multiprocessors);
  const std::int64_t flags = 2 * clusters * persistent_lanes::kConsumerWarps;
  Schedule shared = parallel;
  shared.stream_k_blocks = static_cast<int>(2 * clusters);
  shared.stream_k_tiles = std::min(parallel.tiles(), clusters + parallel.tiles() % clusters);
  const std::int64_t units = shared.stream_k_tiles * ((parallel.stages + kUnit - 1) / kUnit);
  if (flags > block.merge_counters || units < clusters || units > std::numeric_limits<int>::max()) return std::nullopt;
  return shared;
}

Schedule choose_cluster_schedule(const BlockPlan& block, const Problem& problem, const Schedule& parallel,
                                 const runtime::DeviceFacts& device) {
  check_arguments_of_clusters(block, problem);
  if (parallel.row_tiles == 0 || problem.decomposition == Decomposition::data_parallel || problem.splits == 1)
    return parallel;
  if (problem.decomposition == Decomposition::stream_k) {
    if (const auto shared = share_among_clusters(block, parallel, device)) return *shared;
    refuse_stream_k_of_clusters(block, parallel, device);
  }
  Schedule best = parallel;
  const auto consider = [&](const std::optional<Schedule>& candidate) {
    if (candidate && modelled_microseconds(block, *candidate, device) < modelled_microseconds(block, best, device))
      best = *candidate;
  };
  const auto split = split_in_clusters(block, problem, parallel);
  if (split && problem.splits == 2) return *split;
  consider(split);
  if (problem.decomposition == Decomposition::automatic) consider(share_among_clusters(block, parallel, device));
  return best;
}

/// One slice per tile.
Schedule data_parallel(const BlockPlan& block, const Problem& problem) {
  const GemmDescriptor& descriptor = block.descriptor;
  Schedule schedule;
  schedule.row_tiles = (std::int64_t{problem.m} + descriptor.tile_m - 1) / descriptor.tile_m;
  schedule.column_tiles = column_tiles(block, problem);
  schedule.stages = (problem.k + block.stage_k - 1) / block.stage_k;
  return schedule;
}

void choose_split_k(const BlockPlan& block, const Problem& problem, Schedule& schedule,
                    const runtime::DeviceFacts& device) {
  const bool is_narrow = block.k_partitions > 1;
  schedule.splits = problem.splits > 0 ? std::min(problem.splits, schedule.stages)
                    : is_narrow        ? choose_splits_of_narrow_blocks(block, schedule, device)
                                       : choose_splits(block, schedule.tiles(), schedule.stages, device);
  require_split_counters(block, schedule);
  if (is_narrow) return;
  if (problem.decomposition == Decomposition::automatic) consider_stream_k(block, schedule, device);
  schedule.atomic = problem.decomposition == Decomposition::split_k_atomic && schedule.splits > 1;
  schedule.clustered = can_cluster(block, schedule);
}

}  // namespace

std::optional<Schedule> shared_schedule(const BlockPlan& block, const Problem& problem,
                                        const runtime::DeviceFacts& device) {
  const Schedule parallel = data_parallel(block, problem);
  return parallel.row_tiles == 0 ? std::nullopt : share_among_clusters(block, parallel, device);
}

Schedule choose_schedule(const BlockPlan& block, const Problem& problem, const runtime::DeviceFacts& device) {
  check_arguments(block, problem);
  Schedule schedule = data_parallel(block, problem);
  if (block.is_persistent) return choose_cluster_schedule(block, problem, schedule, device);
  const bool is_data_parallel = problem.decomposition == Decomposition::data_parallel || !block.splits_k;
  if (schedule.row_tiles == 0 || is_data_parallel) return schedule;
  if (block.descriptor.batch_invariant) {
    choose_invariant(block, problem, schedule, device);
  } else if (problem.decomposition == Decomposition::stream_k) {
    require_stream_k(block, schedule);
    set_stream_k(schedule, block.resident_blocks(device.multiprocessors));
  } else {
    choose_split_k(block, problem, schedule, device);
  }
  return schedule;
}

}  // namespace cubit::ops::gemm
