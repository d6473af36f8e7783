// How long a launch takes, by what an H200 has shown: docs/performance/w4a16_gemm.md, "Which tiles". Choices of parts
// of k (split.cpp) and of tiles (suggest.cpp) are by it. It was fitted to gptq and awq in groups of 128, fp16, on
// sixteen shapes; of other devices it knows the number of multiprocessors and, for tiles alone, how fast their memory
// is.
#include <algorithm>

#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

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

/// Of blocks of 256 columns, in microseconds.
struct WideTimes {
  double stage;
  double merge;              ///< of any number of parts
  double merge_part;         ///< for each
  double unpaired_part = 0;  ///< more, where pairs of blocks do not add them first
  double merge_pair = 0;     ///< of two parts that are a pair, which do not go through the L2
};
WideTimes wide_times(const Plan& plan) {
  const bool is_sm90 = plan.family == "sm90";
  switch (plan.descriptor.tile_m) {
    case 8:
      return {0.45, 0, 0.17};
    case 16:
      return {0.57, 0, 0.35};
    case 32:
      return is_sm90 ? WideTimes{0.633, 0.8, 0.4, 0.3, 1.6} : WideTimes{0.88, 0, 0.44};
    default:
      return is_sm90 ? WideTimes{0.846, 3.7, 0.1, 0.3, 1.2} : WideTimes{1.6, 0, 0.15};
  }
}

double merge_time(const WideTimes& times, int parts, bool paired) {
  if (parts <= 1) return 0;
  if (paired && parts == 2 && times.merge_pair > 0) return times.merge_pair;
  return times.merge + (times.merge_part + (paired ? 0 : times.unpaired_part)) * parts;
}

/// In stages. Of many rows in pairs as measured; of others, whose parts were swept, a warp that is last reads the sums
/// of its tile of every part.
double merge_stages(const Plan& plan, int parts, bool paired) {
  if (has_pairs(plan) && has_many_rows(plan)) {
    const WideTimes times = wide_times(plan);
    return merge_time(times, parts, paired) / times.stage;
  }
  return parts > 1 ? parts * (0.2 + plan.descriptor.tile_m / 80.0) : 0;
}

/// Without the merge.
double walked_stages(const Plan& plan, std::int64_t tiles, int stages, int splits, const runtime::DeviceFacts& device) {
  const std::int64_t blocks = tiles * splits;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const std::int64_t waves = (blocks + resident - 1) / resident;
  const std::int64_t sharing =
      std::min<std::int64_t>(plan.blocks_per_sm, (blocks + device.multiprocessors - 1) / device.multiprocessors);
  const int share = (stages + splits - 1) / splits;
  return static_cast<double>(waves) * (stages_together(plan, share, sharing) + kFixedStages);
}

double walked_stages_of_shares(const Plan& plan, std::int64_t tiles, int stages, int blocks,
                               const runtime::DeviceFacts& device) {
  // Begins with an empty ring: the longer, the shorter a stage. Family sm90 has one block per multiprocessor, so that
  // nothing else runs while a piece ends.
  const double second_piece = plan.family == "sm90" ? 13 : 72.0 / plan.descriptor.tile_m;
  const std::int64_t share = (tiles * stages + blocks - 1) / blocks;
  const std::int64_t sharing = (blocks + device.multiprocessors - 1) / device.multiprocessors;
  return stages_together(plan, share, sharing) + kFixedStages + second_piece;
}

int parts_of_shares(std::int64_t tiles, int stages, int blocks) { return most_parts(stages, tiles * stages / blocks); }

double stage_megabytes(const Plan& plan) {
  return 1e-6 * gemm_lanes::kStageK * plan.descriptor.tile_n * plan.descriptor.bits / 8;
}

/// In which a memory brings the words of a launch: see modelled_microseconds.
double time_of_words(const Plan& plan, const Split& split, std::int64_t memory_bytes_per_second) {
  constexpr double kH200 = 4.2;       // megabytes per microsecond
  constexpr double kReached = 0.855;  // of what the memory's clock and width give
  const double rate = 1e-12 * kReached * static_cast<double>(memory_bytes_per_second);
  const double megabytes = static_cast<double>(split.column_tiles * split.stages) * stage_megabytes(plan);
  return megabytes / (rate > 0 ? std::min(rate, kH200) : kH200);
}

/// Of blocks of 256 columns.
double time_of_wide_blocks(const Plan& plan, const Split& split, const runtime::DeviceFacts& device,
                           std::int64_t memory_bytes_per_second) {
  constexpr double kLaunch = 4.9;          // microseconds beside the copies of words, with a merge
  constexpr double kAwq = 1.03;            // times the time of the others
  constexpr double kAwqOfManyRows = 0.95;  // likewise, where the others' activations are put in order
  const bool has_shares = split.blocks > 0;
  const double stages = has_shares ? walked_stages_of_shares(plan, split.tiles(), split.stages, split.blocks, device)
                                   : walked_stages(plan, split.tiles(), split.stages, split.splits, device);
  const int parts = has_shares ? parts_of_shares(split.tiles(), split.stages, split.blocks) : split.splits;
  const WideTimes times = wide_times(plan);
  const double merge = merge_time(times, parts, split.paired);
  const double time = std::max(stages * times.stage * plan.descriptor.bits / 4 + merge,
                               kLaunch + time_of_words(plan, split, memory_bytes_per_second));
  if (plan.descriptor.format != W4Format::awq) return time;
  return (has_many_rows(plan) ? kAwqOfManyRows : kAwq) * time;
}

/// awq, whose rows of words are short, beside the others.
double awq_factor(const Plan& plan) {
  const int columns = plan.descriptor.tile_n;
  if (plan.family == "sm80") return columns == 32 ? 2 : 1.4;  // rows of 16 bytes, and of 32
  return columns == 128 ? 1.05 : 1.13;
}

/// Blocks of few columns of family sm90, in microseconds.
struct TeamTimes {
  int columns;
  double stage_8;  ///< a stage, of 8 rows
  double stage_16;
  double merge_8;  ///< of any number of parts
  double merge_16;
};
/// With 160 columns and 16 rows a block has more sums to merge than warps, and no place for them beside its stages.
constexpr TeamTimes kTeamTimes[] = {{32, 0.073, 0.080, 0.88, 0.88}, {64, 0.122, 0.134, 0.88, 0.88},
                                    {96, 0.180, 0.208, 0.88, 0.88}, {128, 0.243, 0.260, 0.88, 0.88},
                                    {160, 0.312, 0.370, 2.0, 3.8},  {224, 0.435, 0.497, 0, 0}};

TeamTimes team_times(const Plan& plan) {
  for (const TeamTimes& times : kTeamTimes)
    if (times.columns == plan.descriptor.tile_n) return times;
  return kTeamTimes[0];
}

/// A stage of blocks of few columns, in microseconds. Family sm80 copies by the warps that multiply, with 16 rows as
/// many activations as 64 columns have words.
double stage_time_of_teams(const Plan& plan) {
  const bool is_16_rows = plan.descriptor.tile_m > 8;
  double time = 0;
  if (plan.family == "sm90") {
    time = is_16_rows ? team_times(plan).stage_16 : team_times(plan).stage_8;
  } else {
    const double columns = plan.descriptor.tile_n * plan.descriptor.bits / 4.0;  // as many bytes
    const double of_column = plan.descriptor.bits == 8 ? 0.0018 : 0.002;         // of three H200s, M=1 at 8192²
    time = is_16_rows ? 0.043 + 0.0018 * columns : of_column * columns;
  }
  return plan.descriptor.format == W4Format::awq ? awq_factor(plan) * time : time;
}

/// Of blocks of few columns, in rounds of as many as there is room for.
double time_of_teams(const Plan& plan, const Split& split, const runtime::DeviceFacts& device,
                     std::int64_t memory_bytes_per_second) {
  constexpr double kLaunch = 1.64;                  // microseconds, with a first stage that comes alone
  constexpr double kRingMegabytes = 0.1;            // of words: of rings of 50 to 110 KB, which make no difference
  constexpr double kMegabytesPerMicrosecond = 7.0;  // of all rings, which are asked for at once
  constexpr double kNextRound = 2;                  // microseconds
  constexpr double kLaunchOfWords = 2.5;            // likewise, where the memory is slower than products are
  const bool is_16_rows = plan.descriptor.tile_m > 8;
  const double merge_part = is_16_rows ? 0.195 : 0.09;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const std::int64_t rounds = (split.tiles() * split.splits + resident - 1) / resident;
  const int share = (split.stages + split.splits - 1) / split.splits;
  const double stages = share;
  const auto rings = static_cast<double>(std::min(split.column_tiles * split.splits, resident));
  const double ring_megabytes = rings * std::min(kRingMegabytes, stages * stage_megabytes(plan));
  const double all_parts = is_16_rows ? team_times(plan).merge_16 : team_times(plan).merge_8;
  const double merge = split.splits > 1 ? all_parts + merge_part * split.splits : 0;
  const double products = kLaunch + ring_megabytes / kMegabytesPerMicrosecond +
                          static_cast<double>(rounds - 1) * kNextRound +
                          static_cast<double>(rounds) * stages * stage_time_of_teams(plan);
  if (memory_bytes_per_second == 0) return products + merge;
  return std::max(products, kLaunchOfWords + time_of_words(plan, split, memory_bytes_per_second)) + merge;
}

}  // namespace

runtime::DeviceFacts h200() {
  runtime::DeviceFacts device;
  device.architecture = &codegen::find_architecture("sm_90a");
  device.multiprocessors = 132;
  return device;
}

int most_parts(int stages, std::int64_t share) { return static_cast<int>((stages + share - 1) / share) + 1; }

double modelled_stages(const Plan& plan, std::int64_t tiles, int stages, int splits,
                       const runtime::DeviceFacts& device) {
  return walked_stages(plan, tiles, stages, splits, device) + merge_stages(plan, splits, splits % 2 == 0);
}

double modelled_stages_of_shares(const Plan& plan, std::int64_t tiles, int stages, int blocks,
                                 const runtime::DeviceFacts& device) {
  return walked_stages_of_shares(plan, tiles, stages, blocks, device) +
         merge_stages(plan, parts_of_shares(tiles, stages, blocks), false);
}

double modelled_microseconds(const Plan& plan, const Split& split, const runtime::DeviceFacts& device,
                             std::int64_t memory_bytes_per_second) {
  return plan.teams > 1 ? time_of_teams(plan, split, device, memory_bytes_per_second)
                        : time_of_wide_blocks(plan, split, device, memory_bytes_per_second);
}

}  // namespace cubit::ops::w4a16_gemm
