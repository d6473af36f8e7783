// The performance model. It was fitted to gptq and awq in groups of 128, fp16, on sixteen shapes. Of a device it knows
// the number of multiprocessors and, where tiles are chosen, the rate of the memory.
#include "ops/gemm/model.hpp"

#include <algorithm>
#include <cmath>

#include "ops/gemm/plan.hpp"
#include "ops/gemm/schedule.hpp"

namespace cubit::ops::gemm {
namespace {

/// Stages that every wave of blocks costs: its first loads and its last products.
constexpr double kFixedStages = 6;

const WideTimes& wide_times(const BlockPlan& block) { return std::get<WideTimes>(block.times); }

/// The stages of all blocks on one multiprocessor, in the time of one stage where eight warps or more share the
/// multiprocessor. Four warps alone take a fifth longer.
double stages_together(const BlockPlan& block, std::int64_t stages, std::int64_t blocks) {
  constexpr double kFourWarpsAlone = 1.22;
  return static_cast<double>(stages * blocks) * (blocks * block.warps <= 4 ? kFourWarpsAlone : 1);
}

double merge_time(const WideTimes& times, int slices, bool is_clustered) {
  if (slices <= 1) return 0;
  if (is_clustered && slices == 2 && times.merge_cluster > 0) return times.merge_cluster;
  return times.merge + (times.merge_slice + (is_clustered ? 0 : times.unclustered_slice)) * slices;
}

double merge_stages(const BlockPlan& block, int slices, bool is_clustered) {
  const WideTimes& times = wide_times(block);
  if (times.chooses_by_merge) return merge_time(times, slices, is_clustered) / times.stage;
  return slices > 1 ? slices * (0.2 + block.descriptor.tile_m / 80.0) : 0;
}

double loop_stages(const BlockPlan& block, std::int64_t tiles, int stages, int splits,
                   const runtime::DeviceFacts& device) {
  const std::int64_t blocks = tiles * splits;
  const std::int64_t resident = block.resident_blocks(device.multiprocessors);
  const std::int64_t waves = (blocks + resident - 1) / resident;
  const std::int64_t sharing =
      std::min<std::int64_t>(block.blocks_per_sm, (blocks + device.multiprocessors - 1) / device.multiprocessors);
  const int share = (stages + splits - 1) / splits;
  return static_cast<double>(waves) * (stages_together(block, share, sharing) + kFixedStages);
}

double stream_k_loop_stages(const BlockPlan& block, std::int64_t tiles, int stages, int blocks,
                            const runtime::DeviceFacts& device) {
  const std::int64_t share = (tiles * stages + blocks - 1) / blocks;
  const std::int64_t sharing = (blocks + device.multiprocessors - 1) / device.multiprocessors;
  return stages_together(block, share, sharing) + kFixedStages + wide_times(block).second_tile;
}

int stream_k_slices(std::int64_t tiles, int stages, int blocks) { return most_slices(stages, tiles * stages / blocks); }

double stage_megabytes(const BlockPlan& block) {
  return 1e-6 * block.stage_k * block.descriptor.tile_n * block.descriptor.weight_bits / 8;
}

/// The time in which the memory delivers the launch's words.
double time_of_words(const BlockPlan& block, const Schedule& schedule, std::int64_t memory_bytes_per_second) {
  constexpr double kH200 = 4.2;       // megabytes per microsecond
  constexpr double kReached = 0.855;  // share of the rate that the memory's clock and width give
  const double rate = 1e-12 * kReached * static_cast<double>(memory_bytes_per_second);
  const int tile_parts = block.is_persistent ? schedule.splits : 1;  // a tile of a divided k has half of the columns
  const double megabytes =
      static_cast<double>(schedule.column_tiles * schedule.stages) * stage_megabytes(block) / tile_parts;
  return megabytes / (rate > 0 ? std::min(rate, kH200) : kH200);
}

double time_of_wide_blocks(const BlockPlan& block, const Schedule& schedule, const runtime::DeviceFacts& device,
                           std::int64_t memory_bytes_per_second) {
  constexpr double kLaunch = 4.9;  // microseconds in addition to the copies of words, a merge included
  const WideTimes& times = wide_times(block);
  const bool is_stream_k = schedule.stream_k_blocks > 0;
  const double stages =
      is_stream_k ? stream_k_loop_stages(block, schedule.tiles(), schedule.stages, schedule.stream_k_blocks, device)
                  : loop_stages(block, schedule.tiles(), schedule.stages, schedule.splits, device);
  const int slices =
      is_stream_k ? stream_k_slices(schedule.tiles(), schedule.stages, schedule.stream_k_blocks) : schedule.splits;
  const double merge = merge_time(times, slices, schedule.clustered);
  const double time =
      std::max(stages * times.stage + merge, kLaunch + time_of_words(block, schedule, memory_bytes_per_second));
  return times.factor * time;
}

/// Narrow blocks run in rounds of as many blocks as the device has room for.
double time_of_narrow_blocks(const BlockPlan& block, const Schedule& schedule, const runtime::DeviceFacts& device,
                             std::int64_t memory_bytes_per_second) {
  constexpr double kLaunch = 1.64;                  // microseconds, including a first stage that arrives alone
  constexpr double kRingMegabytes = 0.1;            // of words in a ring: rings of 50 to 110 KB take equally long
  constexpr double kMegabytesPerMicrosecond = 7.0;  // of all rings, whose first copies are issued together
  constexpr double kNextRound = 2;                  // microseconds
  constexpr double kLaunchOfWords = 2.5;            // microseconds, where the memory is slower than the products
  const auto& times = std::get<NarrowTimes>(block.times);
  const std::int64_t resident = block.resident_blocks(device.multiprocessors);
  const std::int64_t rounds = (schedule.tiles() * schedule.splits + resident - 1) / resident;
  const int slice_stages = (schedule.stages + schedule.splits - 1) / schedule.splits;
  const double stages = slice_stages;
  const auto rings = static_cast<double>(std::min(schedule.column_tiles * schedule.splits, resident));
  const double ring_megabytes = rings * std::min(kRingMegabytes, stages * stage_megabytes(block));
  const double merge = schedule.splits > 1 ? times.merge + times.merge_slice * schedule.splits : 0;
  const double products = kLaunch + ring_megabytes / kMegabytesPerMicrosecond +
                          static_cast<double>(rounds - 1) * kNextRound +
                          static_cast<double>(rounds) * stages * times.stage;
  if (memory_bytes_per_second == 0) return products + merge;
  return std::max(products, kLaunchOfWords + time_of_words(block, schedule, memory_bytes_per_second)) + merge;
}

/// One slab of a persistent cluster, where `working` of all clusters work on average.
double slab_time(const PersistentTimes& times, double working) {
  return std::lerp(times.slab, times.full_slab, std::clamp(2 * working - 1, 0.0, 1.0));
}

/// The last tiles of a launch with stream-K: all clusters have equal shares of them.
double time_of_shared_tiles(const PersistentTimes& times, const Schedule& schedule, std::int64_t clusters) {
  const auto tiles = static_cast<double>(schedule.stream_k_tiles);
  const double clusters_of_tile = static_cast<double>(clusters) / tiles;
  const double share = schedule.stages / clusters_of_tile;
  return share * slab_time(times, 1) + times.epilogue + times.handover + (1 + clusters_of_tile) * times.partial;
}

/// Clusters compute one tile after another. A cluster that divides k computes one tile, and each of its blocks stores
/// half of that tile.
double time_of_clusters(const BlockPlan& block, const Schedule& schedule, const runtime::DeviceFacts& device,
                        std::int64_t memory_bytes_per_second) {
  constexpr double kLaunch = 2.5;  // microseconds, including the first stages
  const auto& times = std::get<PersistentTimes>(block.times);
  const std::int64_t resident = block.resident_clusters(device.multiprocessors);
  const std::int64_t whole = schedule.tiles() - schedule.stream_k_tiles;
  const std::int64_t rounds = (whole + resident - 1) / resident;
  const double slab =
      slab_time(times, static_cast<double>(whole) / static_cast<double>(std::max<std::int64_t>(rounds, 1) * resident));
  const double tile = schedule.splits > 1
                          ? block.first_slice(schedule.stages) * slab + times.exchange + times.epilogue / 2
                          : schedule.stages * slab + times.epilogue;
  double products = kLaunch + static_cast<double>(rounds) * tile;
  if (schedule.stream_k_tiles > 0) products += time_of_shared_tiles(times, schedule, resident);
  if (memory_bytes_per_second == 0) return products;
  return std::max(products, kLaunch + time_of_words(block, schedule, memory_bytes_per_second));
}

}  // namespace

runtime::DeviceFacts h200() {
  runtime::DeviceFacts device;
  device.architecture = &codegen::find_architecture("sm_90a");
  device.multiprocessors = 132;
  return device;
}

int most_slices(int stages, std::int64_t share) { return static_cast<int>((stages + share - 1) / share) + 1; }

double modelled_stages(const BlockPlan& block, std::int64_t tiles, int stages, int splits,
                       const runtime::DeviceFacts& device) {
  return loop_stages(block, tiles, stages, splits, device) + merge_stages(block, splits, splits % 2 == 0);
}

double modelled_stream_k_stages(const BlockPlan& block, std::int64_t tiles, int stages, int blocks,
                                const runtime::DeviceFacts& device) {
  return stream_k_loop_stages(block, tiles, stages, blocks, device) +
         merge_stages(block, stream_k_slices(tiles, stages, blocks), false);
}

double modelled_microseconds(const BlockPlan& block, const Schedule& schedule, const runtime::DeviceFacts& device,
                             std::int64_t memory_bytes_per_second) {
  if (block.is_persistent) return time_of_clusters(block, schedule, device, memory_bytes_per_second);
  return std::holds_alternative<NarrowTimes>(block.times)
             ? time_of_narrow_blocks(block, schedule, device, memory_bytes_per_second)
             : time_of_wide_blocks(block, schedule, device, memory_bytes_per_second);
}

}  // namespace cubit::ops::gemm
