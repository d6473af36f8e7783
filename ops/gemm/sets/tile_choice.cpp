// The choice of a tile by the performance model, and the workspace that serves every choice.
#include "ops/gemm/sets/tile_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "ops/gemm/model.hpp"
#include "ops/gemm/schedule.hpp"
#include "ops/gemm/workspace.hpp"

namespace cubit::ops::gemm {
namespace {

constexpr int kUsualRows = 8192;
constexpr int kRowStep = 8;  ///< every tile's rows are a multiple of this
constexpr int kUsualSizes[][2] = {{4096, 4096}, {8192, 8192}, {28672, 8192}, {8192, 28672}};  ///< n and k

/// Nothing if the kernel does not serve the sizes.
std::optional<Schedule> schedule_of(const BlockPlan& block, const Problem& sizes, const runtime::DeviceFacts& device) {
  if (!serves_sizes(block, sizes)) return std::nullopt;
  if (sizes.decomposition == Decomposition::automatic) return choose_schedule(block, sizes, device);
  try {  // a caller who names a decomposition tunes launches: such a choice may take longer
    return choose_schedule(block, sizes, device);
  } catch (const Failure& failure) {
    if (failure.status() == Status::internal) throw;
    return std::nullopt;
  }
}

/// "m=1 to 8, 17 to 32": the rows for which the kernel is chosen. `chosen`: the kernels for rows 1 to 8, 9 to 16, …
std::string served_rows(const std::vector<std::size_t>& chosen, std::size_t kernel) {
  std::string text;
  for (std::size_t first = 0; first < chosen.size(); ++first) {
    if (chosen[first] != kernel) continue;
    std::size_t last = first;
    while (last + 1 < chosen.size() && chosen[last + 1] == kernel) ++last;
    text += fmt::format("{}{} to {}", text.empty() ? "m=" : ", ", kRowStep * first + 1, kRowStep * (last + 1));
    first = last;
  }
  return text;
}

}  // namespace

ChoiceKey TileChoice::key(const Problem& problem) {
  const auto both = [](std::int32_t low, std::int32_t high) {
    return std::uint64_t{static_cast<std::uint32_t>(low)} | std::uint64_t{static_cast<std::uint32_t>(high)} << 32;
  };
  // Numbers that launches refuse are all alike.
  const auto number = [](int value, int most) { return value >= 0 && value <= most ? value : most + 1; };
  const int decomposition = number(static_cast<int>(problem.decomposition), static_cast<int>(kMostDecomposition));
  constexpr int kMostGroups = 1 << 17;  // more than any block's most_groups
  const int groups = number(problem.groups, kMostGroups);
  const int tuning = 8192 * groups + 1024 * decomposition + 2 * number(problem.splits, kMostSplits);
  return {both(problem.m, problem.n), both(problem.k, problem.more_columns[0]),
          both(tuning + (problem.activation_stride == 0 ? 1 : 0), problem.more_columns[1])};
}

/// Beyond these rows the largest tile is best: it fills the device several times, and whole tiles are the most part of
/// all tiles. The choice is cheap there, and a set's workspace does not grow with the rows.
std::int64_t TileChoice::rows_of_largest_tile(const Problem& sizes, const runtime::DeviceFacts& device) const {
  constexpr std::int64_t kFills = 4;
  constexpr std::int64_t kWholeTiles = 8;
  const BlockPlan& largest = kernels_.back();
  const std::int64_t columns = (sizes.n + largest.descriptor.tile_n - 1) / largest.descriptor.tile_n;
  const std::int64_t resident = largest.is_persistent ? largest.resident_clusters(device.multiprocessors)
                                                      : largest.resident_blocks(device.multiprocessors);
  const std::int64_t tiles = kFills * resident;
  return largest.descriptor.tile_m * std::max(kWholeTiles, (tiles + columns - 1) / columns);
}

std::size_t TileChoice::choose(Problem sizes, const runtime::DeviceFacts& device) const {
  sizes.m = std::max(1, sizes.m);          // the model has no time of nothing
  std::size_t best = kernels_.size() - 1;  // has the fewest rules of its own, and so the most general refusal
  if (sizes.m > rows_of_largest_tile(sizes, device)) {
    while (best > 0 && !schedule_of(kernels_[best], sizes, device)) --best;
    return schedule_of(kernels_[best], sizes, device) ? best : kernels_.size() - 1;
  }
  double best_cost = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const double of_kernel = cost(kernels_[i], sizes, device);
    // Where the memory alone counts, tiles take equally long: then the fewest rows and the most columns.
    const bool is_wider = of_kernel == best_cost && kernels_[i].descriptor.tile_m == kernels_[best].descriptor.tile_m;
    if (of_kernel >= best_cost && !is_wider) continue;
    best = i;
    best_cost = of_kernel;
  }
  return best;
}

/// Infinite if the kernel does not serve the sizes.
double TileChoice::cost(const BlockPlan& block, const Problem& sizes, const runtime::DeviceFacts& device) const {
  const std::optional<Schedule> schedule = schedule_of(block, sizes, device);
  if (!schedule) return std::numeric_limits<double>::infinity();
  if (is_timed_) return modelled_microseconds(block, *schedule, device, device.memory_bytes_per_second);
  constexpr double kTooFewRows = 1 << 20;
  const int rows = block.descriptor.tile_m;
  return rows >= sizes.m ? rows : kTooFewRows - rows;
}

std::size_t TileChoice::workspace_bytes(const Problem& problem, const runtime::DeviceFacts& device) const {
  if (problem.m == 0) return 0;
  const auto of_launch = [&](const BlockPlan& block, const Problem& sizes) {
    const ScheduledLaunch launch{sizes, choose_schedule(block, sizes, device)};
    return block.is_persistent ? gemm::workspace_bytes(block, launch, device) : exact_workspace_bytes(block, launch);
  };
  std::size_t most = of_launch(kernels_[choose(problem, device)], problem);
  // The choice and its schedule depend on the rows through the numbers of row tiles alone, except that one row needs no
  // stride. Beyond the last rows of this loop the choice is fixed, no tile is split, and more rows need no less.
  const std::int64_t last = std::min<std::int64_t>(problem.m - 1, last_split_rows(problem, device));
  Problem fewer = problem;
  for (std::int64_t rows = 1; rows <= last; rows = rows / kRowStep * kRowStep + kRowStep) {
    fewer.m = static_cast<int>(rows);
    const BlockPlan& block = kernels_[choose(fewer, device)];
    if (schedule_of(block, fewer, device)) most = std::max(most, of_launch(block, fewer));
  }
  return most;
}

/// The most rows for which a kernel's tiles may be split, or the largest tile is not chosen yet.
std::int64_t TileChoice::last_split_rows(const Problem& sizes, const runtime::DeviceFacts& device) const {
  std::int64_t rows = rows_of_largest_tile(sizes, device);
  for (const BlockPlan& block : kernels_) {
    if (block.is_persistent) continue;  // needs the same workspace for all rows
    const std::int64_t columns = (sizes.n + block.descriptor.tile_n - 1) / block.descriptor.tile_n;
    rows = std::max(rows, block.merge_counters / block.counters_per_tile / columns * block.descriptor.tile_m);
  }
  return rows;
}

std::vector<ServedSizes> TileChoice::served() const {
  const runtime::DeviceFacts device = h200();
  std::vector<ServedSizes> all;
  for (const auto& [n, k] : kUsualSizes) {
    std::vector<std::size_t> chosen;  // for rows 1 to 8, 9 to 16, …
    Problem sizes;
    sizes.n = n;
    sizes.k = k;
    sizes.activation_stride = k;
    for (sizes.m = kRowStep; sizes.m <= kUsualRows; sizes.m += kRowStep) chosen.push_back(choose(sizes, device));
    ServedSizes one{fmt::format("n={}, k={}", n, k), {}};
    for (std::size_t kernel = 0; kernel < kernels_.size(); ++kernel) one.served.push_back(served_rows(chosen, kernel));
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace cubit::ops::gemm
