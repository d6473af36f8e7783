// How long a launch takes, by what an H200 has shown: docs/performance/w4a16_gemm.md. Choices of parts of k (split.cpp)
// and of tiles (suggest.cpp) are by it. Of other devices nothing but the number of multiprocessors is known.
#include <algorithm>

#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

/// What every wave of blocks costs: its first loads and its last products.
constexpr double kFixedStages = 6;

/// Stages that a multiprocessor's blocks take together, in the time of one where eight warps or more share it: four
/// alone take a fifth longer.
double stages_together(const Plan& plan, std::int64_t stages, std::int64_t blocks) {
  constexpr double kFourWarpsAlone = 1.22;
  return static_cast<double>(stages * blocks) * (blocks * plan.warps <= 4 ? kFourWarpsAlone : 1);
}

/// A warp that is last reads the sums of its tile of every part.
double merge_stages(const Plan& plan, int parts) {
  return parts > 1 ? parts * (0.2 + plan.descriptor.tile_m / 80.0) : 0;
}

double divide_up(std::int64_t a, std::int64_t b) { return static_cast<double>((a + b - 1) / b); }

double stage_megabytes(const Plan& plan) {
  return 1e-6 * gemm_lanes::kStageK * plan.descriptor.tile_n * plan.descriptor.bits / 8;
}

/// A stage of blocks of 256 columns, in microseconds.
double stage_time(const Plan& plan) {
  switch (plan.descriptor.tile_m) {
    case 8:
      return 0.45;
    case 16:
      return 0.58;
    case 32:
      return plan.family == Family::sm90 ? 0.65 : 0.88;
    default:
      return plan.family == Family::sm90 ? 0.955 : 1.6;
  }
}

double time_of_wide_blocks(const Plan& plan, const Split& split, const runtime::DeviceFacts& device) {
  constexpr double kLaunch = 4.3;
  constexpr double kMegabytesPerMicrosecond = 4.26;
  const double stages = split.blocks > 0
                            ? modelled_stages_of_shares(plan, split.tiles(), split.stages, split.blocks, device)
                            : modelled_stages(plan, split.tiles(), split.stages, split.splits, device);
  const double megabytes = static_cast<double>(split.column_tiles * split.stages) * stage_megabytes(plan);
  const double time =
      std::max(stages * stage_time(plan) * plan.descriptor.bits / 4, kLaunch + megabytes / kMegabytesPerMicrosecond);
  return plan.descriptor.format == W4Format::awq ? 1.03 * time : time;
}

/// A stage of blocks of few columns, in microseconds. Family sm80 copies by the warps that multiply; with 16 rows a stage
/// has as many activations as 64 columns have words.
double stage_time_of_teams(const Plan& plan) {
  const int columns = plan.descriptor.tile_n;
  const bool is_16_rows = plan.descriptor.tile_m > 8;
  double time = 0.0019 * columns;
  if (is_16_rows) time = plan.family == Family::sm90 ? 0.008 + 0.00197 * columns : 0.043 + 0.0018 * columns;
  if (plan.descriptor.format == W4Format::awq) {
    // Rows of 16 bytes cost twice those of 32; those of 112 have no swizzle.
    if (plan.family == Family::sm80) return time * (columns == 32 ? 2 : 1.4);
    return time * (columns == 128 ? 1.04 : 1.15);
  }
  return time * plan.descriptor.bits / 4;
}

double time_of_teams(const Plan& plan, const Split& split, const runtime::DeviceFacts& device) {
  constexpr double kFirstStage = 1.64;
  constexpr double kRingMegabytes = 0.1;            // of words
  constexpr double kMegabytesPerMicrosecond = 7.0;  // of all rings, which are asked for at once
  constexpr double kNextRound = 1.0;
  constexpr double kMerge = 0.88;
  constexpr double kMergePart = 0.09;
  constexpr double kMergePartOf16Rows = 0.195;
  const std::int64_t blocks = split.tiles() * split.splits;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const double rounds = divide_up(blocks, resident);
  const double stages = divide_up(split.stages, split.splits);
  const auto rings = static_cast<double>(std::min(split.column_tiles * split.splits, resident));
  const double first = rings * std::min(kRingMegabytes, stages * stage_megabytes(plan)) / kMegabytesPerMicrosecond;
  const double part = plan.descriptor.tile_m > 8 ? kMergePartOf16Rows : kMergePart;
  const double merge = split.splits > 1 ? kMerge + part * split.splits : 0;
  return kFirstStage + first + (rounds - 1) * kNextRound + rounds * stages * stage_time_of_teams(plan) + merge;
}

}  // namespace

int most_parts(int stages, std::int64_t share) { return static_cast<int>((stages + share - 1) / share) + 1; }

double modelled_stages(const Plan& plan, std::int64_t tiles, int stages, int splits,
                       const runtime::DeviceFacts& device) {
  const std::int64_t blocks = tiles * splits;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const std::int64_t waves = (blocks + resident - 1) / resident;
  const std::int64_t sharing =
      std::min<std::int64_t>(plan.blocks_per_sm, (blocks + device.multiprocessors - 1) / device.multiprocessors);
  const int share = (stages + splits - 1) / splits;
  return static_cast<double>(waves) * (stages_together(plan, share, sharing) + kFixedStages) +
         merge_stages(plan, splits);
}

double modelled_stages_of_shares(const Plan& plan, std::int64_t tiles, int stages, int blocks,
                                 const runtime::DeviceFacts& device) {
  // Begins with an empty ring: the longer, the shorter a stage. Family sm90 has one block per multiprocessor, so that
  // nothing else runs while a piece ends.
  const double second_piece = plan.family == Family::sm90 ? 13 : 72.0 / plan.descriptor.tile_m;
  const std::int64_t share = (tiles * stages + blocks - 1) / blocks;
  const std::int64_t sharing = (blocks + device.multiprocessors - 1) / device.multiprocessors;
  return stages_together(plan, share, sharing) + kFixedStages + second_piece +
         merge_stages(plan, most_parts(stages, tiles * stages / blocks));
}

double modelled_microseconds(const Plan& plan, const Split& split, const runtime::DeviceFacts& device) {
  return plan.teams > 1 ? time_of_teams(plan, split, device) : time_of_wide_blocks(plan, split, device);
}

}  // namespace cubit::ops::w4a16_gemm
