// What the plans of all kernel families of GEMMs have in common: the tiles of a thread block and the facts from
// which the schedule, the performance model and the launch are computed. Each family has a plan struct of its own, with
// this one as a member.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "codegen/tile_layout.hpp"
#include "ops/argument_checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/model.hpp"
#include "ops/gemm/weights.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::gemm {

/// Groups for which a table of scales and zeros has room at most: those of 128 values along k of k = 28672.
inline constexpr int kMostTableGroups = 224;

/// Rounds a size up, so that the next region of shared memory begins at bank 0.
constexpr int align_region(int bytes) { return (bytes + 127) / 128 * 128; }

/// Bytes that a pipeline keeps in flight per multiprocessor: twice latency times bandwidth of the fastest device
/// measured (see gqa_decode). Beyond that a second block is worth more than another stage, because the second block
/// computes while the first waits at its barrier.
inline constexpr int kBytesInFlight = 64 * 1024;

/// Shared-memory layouts of the tensors of one pipeline stage: stage_k values along k of tile_n columns and of tile_m
/// rows.
struct StageTiles {
  codegen::TileLayout words;        ///< the weights, packed or not
  codegen::TileLayout activations;  ///< tile_m rows
  codegen::TileLayout scales;       ///< one row per group of a stage; empty without groups, or if groups are indexed
  codegen::TileLayout zeros;        ///< one row per group of a stage; empty if scales are or if no zeros are stored

  int activations_at() const { return align_region(words.size()); }                      ///< byte offset in a stage
  int scales_at() const { return align_region(activations_at() + activations.size()); }  ///< behind the activations
  int zeros_at(int scales_at) const { return align_region(scales_at + scales.size()); }  ///< behind the scales
};

/// A kernel before any size is known. A thread block computes tile_m rows and tile_n columns of the weights.
struct BlockPlan {
  GemmDescriptor descriptor;
  std::string_view family;  ///< the family's name, for error messages: "sm80"
  int threads = 0;          ///< per block
  int warps = 4;            ///< consumer warps that divide the block's columns among them
  /// Groups of such warps that divide the block's k's among them: split-K within the block. Above 1 only if tile_n is
  /// below 256.
  int k_partitions = 1;
  int stages = 0;  ///< pipeline depth: of the block's one ring, or of the ring of each group of warps
  int blocks_per_sm = 0;
  int shared_memory = 0;  ///< dynamic, bytes per block
  /// Workspace counters of one tile whose k several blocks share: one for the warps that add up the same outputs.
  int counters_per_tile = 4;
  std::int64_t merge_counters = kWorkspaceCounters;  ///< workspace counters that all tiles together may use
  bool splits_k = true;                              ///< several blocks can share the k of one tile
  bool has_clusters = false;  ///< 2-CTA clusters can add up two split-K slices in distributed shared memory
  /// Launches consist of 2-CTA clusters that compute tiles until none is left. The two blocks of a cluster have half of
  /// the tile's columns each; or, with split-K, the same columns and half of k each.
  bool is_persistent = false;
  int stage_k = 0;                ///< values along k of a pipeline stage
  bool needs_row_stride = false;  ///< rows of activations are read by a tensor map, which cannot repeat one row
  const char* stride_rule = "";   ///< what a row stride of 0 breaks then, for the error message
  /// All blocks together first write the activations in the order of the words to the workspace. See
  /// templates/gemm/reordered_activations.cuh.
  bool reorders_activations = false;
  StageTiles tiles;
  int factor_table_bytes = 0;       ///< of shared memory: see WeightOperand::group_row_bytes
  int most_groups = 0;              ///< that a launch may have; 0: any number
  std::optional<Role> epilogue;     ///< see WeightOperand::epilogue
  std::optional<Role> row_scaling;  ///< see WeightOperand::row_scaling
  Times times;                      ///< constants of the performance model

  int block_columns() const;  ///< columns of the output that a block computes
  int strips() const { return descriptor.tile_n / gemm_lanes::kStripColumns; }  ///< strips of 32 columns
  std::int64_t resident_blocks(int multiprocessors) const { return std::int64_t{multiprocessors} * blocks_per_sm; }
  /// At least one, because a device of one multiprocessor has none.
  std::int64_t resident_clusters(int multiprocessors) const {
    return std::max<std::int64_t>(1, resident_blocks(multiprocessors) / 2);
  }
  /// Stages of the first slice where the two blocks of a persistent cluster divide `k_stages` stages. The second slice
  /// has the other stages, if any; it begins with a whole group.
  int first_slice(int k_stages) const;
};

/// A block plan with what follows from the descriptor, the weights and the family's name. Every family's plan begins
/// with this call.
BlockPlan begin_block(const GemmDescriptor& descriptor, const WeightOperand& weights, std::string_view family);

/// The mma.sync instruction of products whose operands have as many bits as activations: m16n8 of 256 bits along k, or
/// else the first of m16n8 and m8n8 of 128 bits along k that the architecture's tensor cores have.
codegen::MmaShape mma_shape(const GemmDescriptor& descriptor, const codegen::Architecture& architecture);

/// Column tiles of the first `layers` layers of a launch. A tile has columns of one layer only, so each layer has its
/// own last tile. A gated tile of two layers has columns of both.
std::int64_t column_tiles(const BlockPlan& block, const Problem& problem, int layers = kMostLayers);

/// Groups of a stage; 1 if one group is all of k. Requires groups.
int stage_groups(const BlockPlan& block);
/// Bytes of a row of activations in a stage.
int activation_row_bytes(const BlockPlan& block);

/// Counters of a tile where each of `warps` consumer warps adds up its own columns. A gated tile needs one counter for
/// two warps, because a warp adds up gate columns and their up-projection columns together.
int counters_per_tile(const GemmDescriptor& descriptor, int warps);

/// Accumulated sums of `k_partitions` groups of warps, each of which has all outputs of the block.
int partition_sum_bytes(const BlockPlan& block);

/// Throws Failure(internal) if the plan found no pipeline depth that fits the architecture's shared memory.
void require_stages(const BlockPlan& block, const codegen::Architecture& architecture);

}  // namespace cubit::ops::gemm
