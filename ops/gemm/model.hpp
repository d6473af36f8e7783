// The performance model: how long a launch takes, by what an H200 has shown (bench/notes/w4a16_gemm.md). The model
// chooses schedules (schedule.cpp), and operators choose tiles by it. An operator gives the constants of its blocks.
#pragma once

#include <cstdint>
#include <variant>

#include "runtime/device.hpp"

namespace cubit::ops::gemm {

struct BlockPlan;
struct Schedule;

/// Times of blocks of 256 columns, in microseconds unless a comment says otherwise.
struct WideTimes {
  double stage = 0;              ///< one pipeline stage
  double merge = 0;              ///< adding up split-K slices, whatever their number
  double merge_slice = 0;        ///< more for each slice
  double unclustered_slice = 0;  ///< more for each slice where no cluster adds up two slices first
  double merge_cluster = 0;      ///< two slices that form one cluster, whose sums do not pass through the L2; 0: none
  double second_tile = 0;        ///< in stages: a block with a balanced share begins its second tile with an empty ring
  double factor = 1;             ///< of a launch's whole time, for weight formats that take longer
  /// Schedules are chosen by the merge times above. Otherwise they are chosen by a rule that was fitted to a sweep of
  /// split-K factors: a merging warp reads its tile's partial sums of every slice.
  bool chooses_by_merge = false;
};

/// Times of blocks of fewer than 256 columns, in microseconds. A launch of such blocks has no balanced schedule.
struct NarrowTimes {
  double stage = 0;        ///< one pipeline stage
  double merge = 0;        ///< adding up split-K slices, whatever their number
  double merge_slice = 0;  ///< more for each slice
};

/// Times of the blocks of a persistent cluster, in microseconds.
struct PersistentTimes {
  double slab = 0;       ///< one pipeline stage of 64 k's while at most half of the multiprocessors work
  double full_slab = 0;  ///< the same while all multiprocessors work, which lowers the clock
  double epilogue = 0;   ///< storing a tile
  double exchange = 0;   ///< adding up the two slices of a tile within a cluster
  double handover = 0;   ///< stream-K: a second tile, and partial sums that wait for one another
  double partial = 0;    ///< stream-K: adding the partial sums of one cluster
};

using Times = std::variant<WideTimes, NarrowTimes, PersistentTimes>;

/// The time of a launch of blocks of 256 columns, each tile's k in `splits` slices, in stages of one block.
double modelled_stages(const BlockPlan& block, std::int64_t tiles, int stages, int splits,
                       const runtime::DeviceFacts& device);

/// The time of a launch in which `blocks` blocks have balanced shares of all tiles' stages (stream-K), in stages.
double modelled_stream_k_stages(const BlockPlan& block, std::int64_t tiles, int stages, int blocks,
                                const runtime::DeviceFacts& device);

/// What the performance model was fitted to: an H200's architecture and its number of multiprocessors.
runtime::DeviceFacts h200();

/// The time of any launch. `memory_bytes_per_second` counts where the device's memory is slower than an H200's, to
/// which the model was fitted. 0 means the memory of an H200: split-K factors are chosen that way, because nobody has
/// timed other factors on a slower memory.
double modelled_microseconds(const BlockPlan& block, const Schedule& schedule, const runtime::DeviceFacts& device,
                             std::int64_t memory_bytes_per_second = 0);

/// The most slices that one tile of `stages` stages has where blocks have `share` stages each.
int most_slices(int stages, std::int64_t share);

}  // namespace cubit::ops::gemm
