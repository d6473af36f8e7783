// From a descriptor and an architecture to a plan of the narrow kernel. Pure.
#include <algorithm>

#include "ops/w4a16_gemm/sm90/sm90.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::sm90 {
namespace {

constexpr int kPartitions = 8;
constexpr int kMostStages = 24;             // 32 columns and 8 rows have room for more
constexpr int kStageStep = 4;               // each of up to four producer warps has as many stages
constexpr int kMostRingBytes = 154 * 1024;  // see choose_ring

/// Pauses of a producer warp between two stages, as measured with zeros in groups of 128: a copy of zeros takes as long
/// as two pauses. Words by n, whose rows are short, need more pauses. See templates/kernels/sm90_w4a16_gemm_narrow.cuh.
int producer_pauses(const W4a16Gemm& descriptor) {
  constexpr int kPausesOfZeros = 2;
  struct Pauses {
    int columns;
    int rows_8, rows_16;
    int by_n_rows_8, by_n_rows_16;
  };
  constexpr Pauses kMeasured[] = {{64, 1, 0, 4, 3}, {128, 1, 0, 2, 0}};
  const bool by_n = has_words_by_n(descriptor);
  const int copied_groups = stores_zeros(descriptor) ? stage_groups(descriptor) : 0;
  for (const Pauses& pauses : kMeasured) {
    if (pauses.columns != descriptor.tile_n) continue;
    const int of_8 = by_n ? pauses.by_n_rows_8 : pauses.rows_8;
    const int of_16 = by_n ? pauses.by_n_rows_16 : pauses.rows_16;
    const int measured = descriptor.tile_m > 8 ? of_16 : of_8;
    return measured > 0 ? std::max(0, measured + kPausesOfZeros * (1 - copied_groups)) : 0;
  }
  return 0;
}

/// As measured: the fewer the producer warps, the more stages arrive in order, as long as the producers are fast
/// enough.
int producer_warps(const W4a16Gemm& descriptor) {
  if (descriptor.tile_n == 224) return descriptor.tile_m > 8 ? 2 : 1;
  return descriptor.tile_n > 64 ? 2 : 4;
}

/// Measured times. With 160 columns and 16 rows a block has more sums to merge than warps, and no shared memory for the
/// sums next to its stages.
NarrowTimes times_of(const W4a16Gemm& descriptor) {
  struct Measured {
    int columns;
    double stage_8, stage_16;
    double merge_8, merge_16;
  };
  constexpr Measured kMeasured[] = {{32, 0.073, 0.080, 0.88, 0.88}, {64, 0.122, 0.134, 0.88, 0.88},
                                    {96, 0.180, 0.208, 0.88, 0.88}, {128, 0.243, 0.260, 0.88, 0.88},
                                    {160, 0.312, 0.370, 2.0, 3.8},  {224, 0.435, 0.497, 0, 0}};
  const Measured& times = *std::find_if(std::begin(kMeasured), std::end(kMeasured),
                                        [&](const Measured& one) { return one.columns == descriptor.tile_n; });
  const bool is_16_rows = descriptor.tile_m > 8;
  const double awq = descriptor.tile_n == 128 ? 1.05 : 1.13;  // rows of words are short
  const double stage = is_16_rows ? times.stage_16 : times.stage_8;
  return {.stage = descriptor.format == W4Format::awq ? awq * stage : stage,
          .merge = is_16_rows ? times.merge_16 : times.merge_8,
          .merge_slice = is_16_rows ? 0.195 : 0.09};
}

BlockPlan make_block(const W4a16Gemm& descriptor) {
  BlockPlan block = begin_block(descriptor, "sm90");
  block.warps = 1;
  block.k_partitions = kPartitions;
  block.threads = 32 * (kPartitions + Producers::kWarpgroup);
  block.blocks_per_sm = 1;
  block.needs_row_stride = true;
  block.counters_per_tile = output_columns(descriptor, block.strips()) * descriptor.tile_m / 8;
  // Who asks for 224 columns has many columns, and code that is jumped over costs 0.2 us.
  block.splits_k = descriptor.tile_n < 224;
  block.tiles = box_tiles(descriptor);
  block.times = times_of(descriptor);
  return block;
}

/// Not as many stages as fit: more stages than the memory's latency needs only keep the room from other blocks, unless
/// a consumer warp takes longer for a stage than the stage's copies.
void choose_ring(NarrowPlan& plan, const codegen::Architecture& architecture) {
  BlockPlan& block = plan.block;
  const bool is_slow = block.descriptor.tile_n >= 160 && block.descriptor.tile_m > 8;
  const int most_bytes = is_slow ? architecture.shared_memory_per_block : kMostRingBytes;
  for (int stages = kPartitions; stages <= kMostStages; stages += kStageStep) {
    if (plan.shared_memory(stages) > most_bytes) break;
    block.stages = stages;
  }
  require_stages(block, architecture);
  plan.has_separate_sums =
      plan.shared_memory(block.stages) + partition_sum_bytes(block) <= architecture.shared_memory_per_block;
  block.shared_memory = plan.shared_memory(block.stages);
}

}  // namespace

int NarrowPlan::stage_bytes() const { return block.tiles.activations_at() + block.tiles.activations.size(); }

int NarrowPlan::scale_bytes() const { return align_region(block.tiles.zeros_at(0) + block.tiles.zeros.size()); }

int NarrowPlan::shared_memory(int stages) const {
  return sums_at(stages) + (has_separate_sums ? partition_sum_bytes(block) : 0);
}

NarrowPlan make_narrow_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  NarrowPlan plan;
  plan.block = make_block(descriptor);
  plan.producers = {.warps = producer_warps(descriptor), .registers = 24, .consumer_registers = 240};
  plan.producer_pauses = producer_pauses(descriptor);
  choose_ring(plan, architecture);
  return plan;
}

}  // namespace cubit::ops::w4a16_gemm::sm90
