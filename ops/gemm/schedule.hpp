// How a launch's tiles and pipeline stages are divided among thread blocks, from sizes and the device alone.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/gemm/plan.hpp"
#include "runtime/device.hpp"

namespace cubit::ops::gemm {

/// A launch's schedule: data-parallel (one slice per tile), split-K, stream-K, or fixed-order split-K.
struct Schedule {
  std::int64_t row_tiles = 0;
  std::int64_t column_tiles = 0;
  int stages = 0;  ///< pipeline stages of all of k
  int splits = 1;  ///< split-K slices of a tile; with stream-K the most slices that a tile can have
  /// Blocks that have balanced shares of all tiles' stages (stream-K); 0: each tile has `splits` blocks.
  int stream_k_blocks = 0;
  /// Persistent clusters: the last tiles, whose k's `stream_k_blocks` blocks share evenly; all other tiles are whole.
  std::int64_t stream_k_tiles = 0;
  /// Blocks that take whole tiles and add up each tile's `splits` slices one after another, which is how a
  /// batch-invariant launch keeps its order of k where tiles fill the device; 0: each slice has a block of its own.
  int fixed_order_blocks = 0;
  bool clustered = false;  ///< two neighbouring slices are a 2-CTA cluster
  bool atomic = false;     ///< slices are added by atomics, in the order in which they arrive, in one place per tile

  std::int64_t tiles() const { return row_tiles * column_tiles; }
};

/// Throws Failure(invalid_argument) as check_decomposition() does, and for what the plan and the sizes rule out.
Schedule choose_schedule(const BlockPlan& block, const Problem& problem, const runtime::DeviceFacts& device);

/// The schedule in which all persistent clusters have equal shares of the last tiles, whether or not it is fast. No
/// schedule without rows, or where a cluster's share would be empty; then fewer rows have none either.
std::optional<Schedule> shared_schedule(const BlockPlan& block, const Problem& problem,
                                        const runtime::DeviceFacts& device);

}  // namespace cubit::ops::gemm
