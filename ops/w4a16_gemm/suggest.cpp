// Chooses the tiles of launches whose sizes are known: of all tiles that the descriptor's rules allow, the tiles with
// the least time by the performance model of model.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "ops/numbers.hpp"
#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/schedule.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

/// Whether somebody timed which tiles are fastest.
bool is_modelled(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  return !descriptor.batch_invariant && !descriptor.activation_order &&
         choose_family(families(), descriptor, architecture).family.is_modelled();
}

/// Nothing where a rule forbids these tiles, or where no family has a kernel with these tiles for the architecture.
std::optional<BlockPlan> find_block(const W4a16Gemm& candidate, const cubit_w4a16_gemm_arguments& sizes,
                                    const codegen::Architecture& architecture) {
  try {
    check_rules(candidate, candidate.text());
    check_sizes(candidate, sizes.m, sizes.n, sizes.k);
    return plan_block(candidate, architecture);
  } catch (const Failure& failure) {
    if (failure.status() == Status::internal) throw;
    return std::nullopt;
  }
}

/// The smallest tile of rows that holds `m` rows, up to the largest tile for the descriptor's bits.
W4a16Gemm with_smallest_tile(W4a16Gemm descriptor, int m) {
  const int most = descriptor.bits == 8 ? 32 : 64;
  for (descriptor.tile_m = 8; descriptor.tile_m < m && descriptor.tile_m < most;) descriptor.tile_m *= 2;
  return descriptor;
}

/// `standard` has neither tile_m nor tile_n.
W4a16Gemm fastest_of_all_tiles(const W4a16Gemm& standard, const cubit_w4a16_gemm_arguments& sizes,
                               const runtime::DeviceFacts& device) {
  W4a16Gemm best = standard;
  double best_time = 0;
  for (const int rows : kTileRows) {
    for (const int columns : kTileColumns) {
      W4a16Gemm candidate = standard;
      candidate.tile_m = rows;
      candidate.tile_n = columns;
      const std::optional<BlockPlan> block = find_block(candidate, sizes, *device.architecture);
      if (!block) continue;
      const Schedule schedule = choose_schedule(*block, sizes, device);
      const double time = modelled_microseconds(*block, schedule, device, device.memory_bytes_per_second);
      if (best_time > 0 && time >= best_time) continue;
      best = candidate;
      best_time = time;
    }
  }
  return best;
}

std::int64_t size_of(const Numbers& sizes, const char* name) {
  constexpr double kMost = 0x1p53;
  const auto found = sizes.find(name);
  if (found == sizes.end()) {
    throw Failure(Status::invalid_argument, fmt::format("no size {}", name),
                  "which tiles of w4a16_gemm are fastest depends on it", "give m, n and k");
  }
  return whole_number(name, found->second, -kMost, kMost);  // check_sizes names the narrower rule
}

}  // namespace

W4a16Gemm suggest(const W4a16Gemm& descriptor, const Numbers& sizes, const runtime::DeviceFacts& device) {
  for (const auto& [name, value] : sizes) {
    if (name == "m" || name == "n" || name == "k") continue;
    throw Failure(Status::invalid_argument, fmt::format("size {}", name),
                  "which tiles of w4a16_gemm are fastest does not depend on it", "accepted: m, n, k");
  }
  const std::int64_t m = size_of(sizes, "m");
  const std::int64_t n = size_of(sizes, "n");
  const std::int64_t k = size_of(sizes, "k");
  return with_fastest_tiles(descriptor, m, n, k, device);
}

W4a16Gemm with_fastest_tiles(const W4a16Gemm& descriptor, std::int64_t m, std::int64_t n, std::int64_t k,
                             const runtime::DeviceFacts& device) {
  W4a16Gemm standard = descriptor;
  standard.tile_m = W4a16Gemm{}.tile_m;
  standard.tile_n = W4a16Gemm{}.tile_n;
  check_sizes(standard, m, n, k);
  check_rows_of_words(standard, n);
  cubit_w4a16_gemm_arguments sizes{};
  sizes.m = static_cast<std::int32_t>(std::max<std::int64_t>(1, m));
  sizes.n = static_cast<std::int32_t>(n);
  sizes.k = static_cast<std::int32_t>(k);
  for (const int rows : kTileRows) {  // a named family may have no tile of the standard's rows
    if (is_served(standard)) break;
    standard.tile_m = rows;
  }
  choose_family(families(), standard, *device.architecture);  // throws where no family has any kernel
  if (!is_modelled(standard, *device.architecture)) return with_smallest_tile(standard, sizes.m);
  return fastest_of_all_tiles(standard, sizes, device);
}

}  // namespace cubit::ops::w4a16_gemm
