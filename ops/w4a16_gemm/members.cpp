// The policy of sets: which tiles a set has on an architecture, and which member a launch takes.
//
// With the tiles of the lists below, launches of up to 64 rows of large layers take at most 4% longer on an H200 than
// with the best of all tiles, by the model. bench/member_study.cpp finds such lists; bench/notes/w4a16_gemm.md states
// what they lose.
#include "ops/w4a16_gemm/members.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <string>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/gemm/schedule.hpp"
#include "ops/gemm/workspace.hpp"
#include "ops/w4a16_gemm/description.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

using Arguments = cubit_w4a16_gemm_arguments;
using gemm::Problem;

/// A kernel's tile.
struct Tile {
  int rows;
  int columns;
};

/// On sm_90a, where a word has weights that are neighbours along k.
constexpr Tile kByK[] = {{8, 64},   {8, 96},   {8, 224},  {8, 256},  {16, 64},  {16, 96},   {16, 128},
                         {16, 224}, {16, 256}, {32, 256}, {64, 256}, {80, 256}, {144, 256}, {256, 256}};
/// On sm_90a for awq.
constexpr Tile kByN[] = {{8, 64},   {8, 256},  {16, 64},  {16, 96},   {16, 128}, {16, 256},
                         {32, 256}, {64, 256}, {80, 256}, {144, 256}, {256, 256}};
/// On sm_90a for gated functions.
constexpr Tile kGated[] = {{8, 64},   {8, 128},  {8, 256},  {16, 128},  {16, 256},
                           {32, 256}, {64, 256}, {80, 256}, {144, 256}, {256, 256}};
/// On sm_90a for dense weights.
constexpr Tile kDense[] = {{16, 256}, {32, 256}, {64, 256}, {80, 256}, {144, 256}, {256, 256}};
constexpr Tile kOfOthers[] = {{8, 32}, {8, 64}, {8, 256}, {16, 64}, {16, 256}, {32, 256}, {64, 256}};
constexpr Tile kOf8Bits[] = {{8, 32}, {8, 64}, {8, 256}, {16, 32}, {16, 64}, {16, 256}, {32, 256}};
/// Where nobody has timed the tiles. With batch_invariant=true these tiles give a row the same bits, because the slices
/// of k follow from n, k and tile_n.
constexpr Tile kUntimed[] = {{8, 256}, {16, 256}, {32, 256}, {64, 256}};

constexpr int kMostNarrowRows = 16;  ///< of tiles of fewer than 256 columns
constexpr int kUsualRows = 8192;
constexpr int kRowStep = 8;  ///< every tile's rows are a multiple of this
constexpr int kUsualSizes[][2] = {{4096, 4096}, {8192, 8192}, {28672, 8192}, {8192, 28672}};  ///< n and k

W4a16Gemm with_tile(W4a16Gemm set, const Tile& tile) {
  set.tile_m = tile.rows;
  set.tile_n = tile.columns;
  return set;
}

std::vector<W4a16Gemm> with_tiles(const W4a16Gemm& set, std::span<const Tile> tiles) {
  std::vector<W4a16Gemm> kernels;
  for (const Tile& tile : tiles) kernels.push_back(with_tile(set, tile));
  return kernels;
}

/// Every kernel whose tile has the size that the set gives, by ascending tile_m, then tile_n. Tiles of fewer than 256
/// columns have at most `most_narrow_rows` rows.
std::vector<W4a16Gemm> with_every_tile(const W4a16Gemm& set, int most_narrow_rows) {
  std::vector<W4a16Gemm> kernels;
  for (const int rows : kTileRows) {
    if (set.tile_m != 0 && rows != set.tile_m) continue;
    for (auto columns = kTileColumns.rbegin(); columns != kTileColumns.rend(); ++columns) {
      const bool is_wide = *columns == gemm_lanes::kBlockColumns;
      if ((set.tile_n != 0 && *columns != set.tile_n) || (!is_wide && rows > most_narrow_rows)) continue;
      kernels.push_back(with_tile(set, {rows, *columns}));
    }
  }
  return kernels;
}

std::span<const Tile> timed_tiles(const W4a16Gemm& set, const codegen::Architecture& architecture) {
  if (set.is_dense()) return kDense;
  if (set.bits == 8) return kOf8Bits;
  if (!architecture.wgmma) return kOfOthers;
  if (set.is_gated()) return kGated;
  return has_words_by_n(set) ? std::span<const Tile>(kByN) : std::span<const Tile>(kByK);
}

bool is_served_on(const W4a16Gemm& kernel, const codegen::Architecture& architecture) {
  return is_served(kernel) && serves(families(), kernel, architecture);
}

/// Whether somebody timed which tiles of the set are fastest.
bool is_timed(const W4a16Gemm& set, const codegen::Architecture& architecture) {
  if (set.batch_invariant || set.activation_order) return false;
  for (const W4a16Gemm& kernel : with_every_tile(set, kMostNarrowRows)) {
    if (is_served_on(kernel, architecture)) return choose_family(families(), kernel, architecture).family.is_modelled();
  }
  return false;
}

/// The kernels that may be members. A set that gives one size of its tile has every tile with that size.
std::vector<W4a16Gemm> candidates(const W4a16Gemm& set, const codegen::Architecture& architecture) {
  const bool takes_untimed = set.tile_n == 0 && !is_timed(set, architecture);
  if (set.tile_m != 0 || set.tile_n != 0) return with_every_tile(set, takes_untimed ? 0 : kMostNarrowRows);
  return with_tiles(set, takes_untimed ? std::span<const Tile>(kUntimed) : timed_tiles(set, architecture));
}

/// The first kernel whose tile suits the family that the set names, so that its refusal names a rule of other fields.
template <class IsServed>
const W4a16Gemm& typical(const std::vector<W4a16Gemm>& kernels, const IsServed& is_served) {
  for (const W4a16Gemm& kernel : kernels) {
    if (is_served({.tile_m = kernel.tile_m, .tile_n = kernel.tile_n, .family = kernel.family})) return kernel;
  }
  return kernels.front();
}

/// The sizes that the set may give instead of the one that it gives: "8, 16, 32, 64". Empty if there is none.
std::string accepted_sizes(W4a16Gemm set, const codegen::Architecture& architecture) {
  std::set<int> accepted;
  const bool gives_rows = set.tile_m != 0;
  (gives_rows ? set.tile_m : set.tile_n) = 0;
  for (const W4a16Gemm& kernel : with_every_tile(set, kMostNarrowRows)) {
    if (is_served_on(kernel, architecture)) accepted.insert(gives_rows ? kernel.tile_m : kernel.tile_n);
  }
  return fmt::format("{}", fmt::join(accepted, ", "));
}

Problem checked_problem(const void* public_arguments) {
  return problem_of(checked_arguments<Arguments>(public_arguments, "cubit_w4a16_gemm_arguments"));
}

/// Nothing if the member does not serve the sizes.
std::optional<gemm::Schedule> schedule_of(const BlockPlan& block, const Problem& sizes,
                                          const runtime::DeviceFacts& device) {
  if (!serves_sizes(block, sizes)) return std::nullopt;
  if (sizes.decomposition == gemm::Decomposition::automatic) return choose_schedule(block, sizes, device);
  try {  // a caller who names a decomposition tunes launches: such a choice may take longer
    return choose_schedule(block, sizes, device);
  } catch (const Failure& failure) {
    if (failure.status() == Status::internal) throw;
    return std::nullopt;
  }
}

/// "m=1 to 8, 17 to 32": the rows for which the member is chosen. `chosen`: the members for rows 1 to 8, 9 to 16, …
std::string served_rows(const std::vector<std::size_t>& chosen, std::size_t member) {
  std::string text;
  for (std::size_t first = 0; first < chosen.size(); ++first) {
    if (chosen[first] != member) continue;
    std::size_t last = first;
    while (last + 1 < chosen.size() && chosen[last + 1] == member) ++last;
    text += fmt::format("{}{} to {}", text.empty() ? "m=" : ", ", kRowStep * first + 1, kRowStep * (last + 1));
    first = last;
  }
  return text;
}

}  // namespace

std::vector<W4a16Gemm> members(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  if (!descriptor.is_set()) return {descriptor};
  const auto is_served_here = [&](const W4a16Gemm& kernel) { return is_served_on(kernel, architecture); };
  const std::vector<W4a16Gemm> kernels = candidates(descriptor, architecture);
  std::vector<W4a16Gemm> served;
  std::copy_if(kernels.begin(), kernels.end(), std::back_inserter(served), is_served_here);
  if (!served.empty()) return served;
  std::string subject = fmt::format("{} for {}", descriptor.text(), architecture.name);
  if (descriptor.tile_m != 0 || descriptor.tile_n != 0) {
    const std::string accepted = accepted_sizes(descriptor, architecture);
    const auto given =
        descriptor.tile_m != 0 ? std::pair("tile_m", descriptor.tile_m) : std::pair("tile_n", descriptor.tile_n);
    if (!accepted.empty())
      throw Failure(Status::unsupported, std::move(subject),
                    fmt::format("no kernel has {}={} there", given.first, given.second), "accepted: " + accepted);
  }
  try {
    const W4a16Gemm& kernel = typical(kernels, is_served_here);
    check_rules(kernel, kernel.text());
    choose_family(families(), kernel, architecture);
  } catch (const Failure& failure) {
    throw Failure(Status::unsupported, std::move(subject), failure.rule(), failure.remedy());
  }
  throw Failure(Status::internal, std::move(subject), "the set has no member, and its first kernel is served");
}

std::optional<BrokenRule> why_no_members(const W4a16Gemm& set) {
  const std::vector<W4a16Gemm> kernels = with_every_tile(set, kMostNarrowRows);
  if (std::any_of(kernels.begin(), kernels.end(), is_served)) return std::nullopt;
  try {
    const W4a16Gemm& kernel = typical(kernels, is_served);
    check_rules(kernel, kernel.text());
  } catch (const Failure& failure) {
    return BrokenRule{failure.rule(), failure.remedy()};
  }
  return std::nullopt;
}

GemmChoice::GemmChoice(const W4a16Gemm& set, const std::vector<W4a16Gemm>& kernels,
                       const codegen::Architecture& architecture)
    : set_(describe(set)), is_timed_(is_timed(set, architecture)) {
  for (const W4a16Gemm& kernel : kernels) {
    const GemmFamily& family = choose_family(families(), kernel, architecture).family;
    members_.push_back({kernel, family.block_plan(kernel, architecture)});
  }
}

ChoiceKey GemmChoice::key(const void* public_arguments) const {
  const Problem problem = checked_problem(public_arguments);
  const auto both = [](std::int32_t low, std::int32_t high) {
    return std::uint64_t{static_cast<std::uint32_t>(low)} | std::uint64_t{static_cast<std::uint32_t>(high)} << 32;
  };
  return {both(problem.m, problem.n), both(problem.k, static_cast<std::int32_t>(problem.decomposition)),
          both(problem.splits, problem.activation_stride == 0 ? 1 : 0)};
}

std::size_t GemmChoice::choose(const void* public_arguments, const runtime::DeviceFacts& device) const {
  const Problem problem = checked_problem(public_arguments);
  gemm::check_sizes(set_, problem.m, problem.n, problem.k);
  return choose_by_sizes(problem, device);
}

/// Beyond these rows the largest tile is best: it fills the device several times, and whole tiles are the most part of
/// all tiles. The choice is cheap there, and a set's workspace does not grow with the rows.
std::int64_t GemmChoice::rows_of_largest_tile(const Problem& sizes, const runtime::DeviceFacts& device) const {
  constexpr std::int64_t kFills = 4;
  constexpr std::int64_t kWholeTiles = 8;
  const BlockPlan& largest = members_.back().block;
  const std::int64_t columns = (sizes.n + largest.descriptor.tile_n - 1) / largest.descriptor.tile_n;
  const std::int64_t resident = largest.is_persistent ? largest.resident_clusters(device.multiprocessors)
                                                      : largest.resident_blocks(device.multiprocessors);
  const std::int64_t tiles = kFills * resident;
  return largest.descriptor.tile_m * std::max(kWholeTiles, (tiles + columns - 1) / columns);
}

std::size_t GemmChoice::choose_by_sizes(Problem sizes, const runtime::DeviceFacts& device) const {
  sizes.m = std::max(1, sizes.m);          // the model has no time of nothing
  std::size_t best = members_.size() - 1;  // has the fewest rules of its own, and so the most general refusal
  if (sizes.m > rows_of_largest_tile(sizes, device)) {
    while (best > 0 && !schedule_of(members_[best].block, sizes, device)) --best;
    return schedule_of(members_[best].block, sizes, device) ? best : members_.size() - 1;
  }
  double best_cost = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const double of_member = cost(members_[i].block, sizes, device);
    // Where the memory alone counts, tiles take equally long: then the fewest rows and the most columns.
    const bool is_wider = of_member == best_cost && member(i).tile_m == member(best).tile_m;
    if (of_member >= best_cost && !is_wider) continue;
    best = i;
    best_cost = of_member;
  }
  return best;
}

/// Infinite if the member does not serve the sizes.
double GemmChoice::cost(const BlockPlan& block, const Problem& sizes, const runtime::DeviceFacts& device) const {
  const std::optional<gemm::Schedule> schedule = schedule_of(block, sizes, device);
  if (!schedule) return std::numeric_limits<double>::infinity();
  if (is_timed_) return modelled_microseconds(block, *schedule, device, device.memory_bytes_per_second);
  constexpr double kTooFewRows = 1 << 20;
  const int rows = block.descriptor.tile_m;
  return rows >= sizes.m ? rows : kTooFewRows - rows;
}

std::size_t GemmChoice::workspace_bytes(const void* public_arguments, const runtime::DeviceFacts& device) const {
  const Problem problem = checked_problem(public_arguments);
  gemm::check_sizes(set_, problem.m, problem.n, problem.k);
  if (problem.m == 0) return 0;
  const auto of_launch = [&](const BlockPlan& block, const Problem& sizes) {
    const gemm::ScheduledLaunch launch{sizes, gemm::choose_schedule(block, sizes, device)};
    return block.is_persistent ? gemm::workspace_bytes(block, launch, device) : exact_workspace_bytes(block, launch);
  };
  std::size_t most = of_launch(members_[choose_by_sizes(problem, device)].block, problem);
  // The choice and its schedule depend on the rows through the numbers of row tiles alone, except that one row needs no
  // stride. Beyond the last rows of this loop the choice is fixed, no tile is split, and more rows need no less.
  const std::int64_t last = std::min<std::int64_t>(problem.m - 1, last_split_rows(problem, device));
  Problem fewer = problem;
  for (std::int64_t rows = 1; rows <= last; rows = rows / kRowStep * kRowStep + kRowStep) {
    fewer.m = static_cast<int>(rows);
    const BlockPlan& block = members_[choose_by_sizes(fewer, device)].block;
    if (schedule_of(block, fewer, device)) most = std::max(most, of_launch(block, fewer));
  }
  return most;
}

/// The most rows for which a member's tiles may be split, or the largest tile is not chosen yet.
std::int64_t GemmChoice::last_split_rows(const Problem& sizes, const runtime::DeviceFacts& device) const {
  std::int64_t rows = rows_of_largest_tile(sizes, device);
  for (const Member& member : members_) {
    const BlockPlan& block = member.block;
    if (block.is_persistent) continue;  // needs the same workspace for all rows
    const std::int64_t columns = (sizes.n + block.descriptor.tile_n - 1) / block.descriptor.tile_n;
    rows = std::max(rows, block.merge_counters / block.counters_per_tile / columns * block.descriptor.tile_m);
  }
  return rows;
}

std::vector<ServedSizes> GemmChoice::served() const {
  const runtime::DeviceFacts device = gemm::h200();
  std::vector<ServedSizes> all;
  for (const auto& [n, k] : kUsualSizes) {
    std::vector<std::size_t> chosen;  // for rows 1 to 8, 9 to 16, …
    Problem sizes;
    sizes.n = n;
    sizes.k = k;
    sizes.activation_stride = k;
    for (sizes.m = kRowStep; sizes.m <= kUsualRows; sizes.m += kRowStep)
      chosen.push_back(choose_by_sizes(sizes, device));
    ServedSizes one{fmt::format("n={}, k={}", n, k), {}};
    for (std::size_t member = 0; member < members_.size(); ++member) one.served.push_back(served_rows(chosen, member));
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace cubit::ops::w4a16_gemm
