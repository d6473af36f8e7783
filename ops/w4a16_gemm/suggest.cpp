// Which tiles a launch of known sizes wants: of all that the descriptor's rules allow, those of the least time by the
// model of model.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "ops/numbers.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

/// Nobody has timed which tiles are fastest for others.
bool is_modelled(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  const bool is_sm75 = descriptor.family == "sm75" || !architecture.cp_async;
  return !descriptor.batch_invariant && !descriptor.activation_order && !is_sm75;
}

/// Nothing where a rule forbids these tiles, or the architecture has no kernel of them.
std::optional<Plan> find_plan(const W4a16Gemm& candidate, const cubit_w4a16_gemm_arguments& sizes,
                              const codegen::Architecture& architecture) {
  try {
    check_rules(candidate, candidate.text());
    check_sizes(candidate, sizes.m, sizes.n, sizes.k);
    return make_plan_without_report(candidate, architecture);
  } catch (const Failure& failure) {
    if (failure.status() == Status::internal) throw;
    return std::nullopt;
  }
}

/// Of rows, up to the largest that there is of its bits.
W4a16Gemm with_smallest_tile(W4a16Gemm descriptor, int m) {
  const int most = descriptor.bits == 8 ? 32 : 64;
  for (descriptor.tile_m = 8; descriptor.tile_m < m && descriptor.tile_m < most;) descriptor.tile_m *= 2;
  return descriptor;
}

std::int64_t size_of(const Numbers& sizes, const char* name) {
  constexpr double kMost = 0x1p53;
  const auto found = sizes.find(name);
  if (found == sizes.end()) {
    throw Failure(Status::invalid_argument, fmt::format("no size {}", name),
                  "which tiles of w4a16_gemm are fastest depends on it", "give m, n and k");
  }
  return whole_number(name, found->second, -kMost, kMost);  // which check_sizes says more of
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
  make_plan_without_report(standard, *device.architecture);  // throws where the architecture has no kernel at all
  cubit_w4a16_gemm_arguments sizes{};
  sizes.m = static_cast<std::int32_t>(std::max<std::int64_t>(1, m));
  sizes.n = static_cast<std::int32_t>(n);
  sizes.k = static_cast<std::int32_t>(k);
  if (!is_modelled(descriptor, *device.architecture)) return with_smallest_tile(standard, sizes.m);
  W4a16Gemm best = standard;
  double best_time = 0;
  for (const int rows : kTileRows) {
    for (const int columns : kTileColumns) {
      W4a16Gemm candidate = standard;
      candidate.tile_m = rows;
      candidate.tile_n = columns;
      const std::optional<Plan> plan = find_plan(candidate, sizes, *device.architecture);
      if (!plan) continue;
      const double time =
          modelled_microseconds(*plan, choose_split(*plan, sizes, device), device, device.memory_bytes_per_second);
      if (best_time > 0 && time >= best_time) continue;
      best = candidate;
      best_time = time;
    }
  }
  return best;
}

}  // namespace cubit::ops::w4a16_gemm
