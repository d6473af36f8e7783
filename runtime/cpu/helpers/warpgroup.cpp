// Executes wgmma for one warp: its 16 of the warpgroup's 64 rows. PTX ISA, "Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate Instructions".
//
// Results are in their registers immediately. A read of an accumulator is reported as an error unless a
// wgmma.wait_group has covered the group that writes it. For this the helper records the group of each accumulator
// register, also through moves. Shared memory is read immediately too; in checked launches it counts as being read
// until the wait.
//
// Numbers are those of mma.sync on sm_90 (tensor_core.hpp): all 16 products and the addend are summed at once with 25
// bits, and the sum is truncated to an f32. That wgmma sums this way is an assumption from the same published source
// and was not verified on a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/cpu/arithmetic/numbers.hpp"
#include "runtime/cpu/arithmetic/tensor_core.hpp"
#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/execute/mbarrier.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/helpers/matrix.hpp"
#include "runtime/cpu/helpers/matrix_descriptor.hpp"
#include "runtime/cpu/helpers/swizzle.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu::helpers {
namespace {

constexpr int kRows = 16;    // rows of a warp
constexpr int kColumns = 8;  // columns of one call
constexpr int kK = kWarpgroupDepth;
constexpr int kWarps = 4;
constexpr int kPerChunk = 8;  // elements of a chunk
constexpr std::uint32_t kSign = 0x8000;
constexpr int kValuesOfA = kRows * kK / kLanes;
constexpr int kValuesOfD = kRows * kColumns / kLanes;

bool has_option(const Site& site, WarpgroupOption option) { return (site.form & option) != 0; }

/// Reads the descriptor in `slot`, which must be the same in all lanes. Returns false after warp.fail().
bool read_descriptor(Warp& warp, const Site& site, int slot, MatrixDescriptor& dst) {
  const auto bits = source<std::uint64_t>(warp, slot);
  for (int lane = 1; lane < kLanes; ++lane) {
    if (bits[lane] == bits[0]) continue;
    warp.fail(site, lane, "a matrix descriptor is not the same in all lanes");
    return false;
  }
  dst = decode_descriptor(bits[0]);
  const std::string rule = broken_rule(dst);
  if (!rule.empty()) warp.fail(site, 0, rule);
  return rule.empty();
}

/// A matrix in shared memory.
struct Described {
  MatrixDescriptor descriptor;
  bool is_mn_major;
};

/// Calls body(chunk in memory, i, k) for every chunk of rows [first, first + count), or of columns for B. (i, k) is the
/// chunk's first element, counted from the start of the tile. Stops after warp.fail().
template <class Body>
void for_chunks(Warp& warp, const Site& site, const Described& matrix, int first, int count, Body body) {
  const int row_step = matrix.is_mn_major ? kPerChunk : 1;
  const int k_step = matrix.is_mn_major ? 1 : kPerChunk;
  for (int i = 0; i < count; i += row_step) {
    for (int k = 0; k < kK; k += k_step) {
      const std::uint64_t address = chunk_address(matrix.descriptor, matrix.is_mn_major, first + i, k);
      const std::byte* const chunk = resolve_range(warp, site, ptx::Space::shared, false, address, kSwizzleChunk, 0);
      if (chunk == nullptr) return;
      body(chunk, i, k);
    }
  }
}

/// Reads a tile into `dst`, ordered by row and then by k.
void read_tile(Warp& warp, const Site& site, const Described& matrix, int first, int count, std::uint32_t* dst) {
  for_chunks(warp, site, matrix, first, count, [&](const std::byte* chunk, int i, int k) {
    std::array<std::uint16_t, kPerChunk> values{};
    std::memcpy(values.data(), chunk, sizeof values);
    for (int e = 0; e < kPerChunk; ++e)
      dst[matrix.is_mn_major ? (i + e) * kK + k : i * kK + k + e] = values[static_cast<std::size_t>(e)];
  });
}

bool read_described(Warp& warp, const Site& site, bool is_a, Described& dst) {
  dst.is_mn_major = has_option(site, is_a ? kTransposeA : kTransposeB);
  return read_descriptor(warp, site, is_a ? 0 : kDescriptorOfB, dst.descriptor);
}

int first_row(const Warp& warp) { return warp.index % kWarps * kRows; }

void read_a(Warp& warp, const Site& site, std::uint32_t* dst) {
  if (has_option(site, kDescriptorA)) {
    Described matrix{};
    if (read_described(warp, site, true, matrix)) read_tile(warp, site, matrix, first_row(warp), kRows, dst);
    return;
  }
  const std::uint16_t* table = site.table.data();
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < kValuesOfA; ++i) dst[*table++] = element(warp, 0, lane, i, 16);
  }
}

void negate(std::uint32_t* values, int count) {
  for (int i = 0; i < count; ++i) values[i] ^= kSign;
}

/// Returns false after warp.fail(), or if no lane takes part.
bool may_start(Warp& warp, Mask mask, const Site& site) {
  if (!whole_warp(warp, mask, site)) return false;
  const auto warps = static_cast<int>(warp.cta->warps.size());
  const Mask scale = source_mask(warp, kScaleD);
  if (warp.index / kWarps * kWarps + kWarps > warps) {
    warp.fail(site, 0,
              fmt::format("a warpgroup is four warps; this block has {}, and this is warp {}", warps, warp.index));
  } else if (scale != 0 && scale != ~Mask{0}) {
    warp.fail(site, __builtin_ctz(scale), "scale-d is not the same in all lanes");
  } else if (!warp.wgmma.fenced) {
    warp.fail(site, 0, "there is no wgmma.fence before the warp's first wgmma.mma_async");
  }
  return !warp.failure;
}

std::vector<std::uint32_t>& groups_of(Warp& warp, const Site& site) {
  auto& groups = warp.wgmma.group_of_register;
  groups.resize(static_cast<std::size_t>(site.result_bytes));
  return groups;
}

void watch_reading(const WarpgroupReading& reading, Warp& warp) {
  for (const std::byte* const chunk : reading.chunks)
    watch_range(warp, *reading.site, 0, RequestKind::read, ptx::Space::shared, chunk, kSwizzleChunk);
}

/// Records reads of all rows of A and all columns of B, independent of the warp.
void start_reading(Warp& warp, const Site& site) {
  WarpgroupReading reading{warp.wgmma.committed + 1, &site, {}};
  const auto add = [&](bool is_a, int count) {
    Described matrix{};
    if (!read_described(warp, site, is_a, matrix)) return;
    for_chunks(warp, site, matrix, 0, count,
               [&](const std::byte* chunk, int, int) { reading.chunks.push_back(chunk); });
  };
  if (has_option(site, kDescriptorA)) add(true, kRows * kWarps);
  add(false, site.count);
  watch_reading(reading, warp);
  warp.wgmma.readings.push_back(std::move(reading));
}

}  // namespace

void start_warpgroup(Warp& warp, Mask mask, const Site& site) {
  if (!may_start(warp, mask, site)) return;
  auto& groups = groups_of(warp, site);
  for (const std::uint16_t number : site.table) groups[number] = warp.wgmma.committed + 1;
  if (checker_of(warp) != nullptr) start_reading(warp, site);
}

void multiply_warpgroup(Warp& warp, Mask mask, const Site& site) {
  if (mask == 0 || warp.failure) return;
  std::array<std::uint32_t, kRows * kK> a{};
  std::array<std::uint32_t, kColumns * kK> b{};
  std::array<std::uint32_t, kRows * kColumns> sums{};
  read_a(warp, site, a.data());
  Described matrix{};
  if (!read_described(warp, site, false, matrix)) return;
  read_tile(warp, site, matrix, site.kind, kColumns, b.data());
  if (has_option(site, kNegateA)) negate(a.data(), kRows * kK);
  if (has_option(site, kNegateB)) negate(b.data(), kColumns * kK);
  const std::uint16_t* const places = site.table.data() + a.size();
  const std::uint16_t* place = places;
  if (source_mask(warp, kScaleD) != 0) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < kValuesOfD; ++i) sums[*place++] = source<std::uint32_t>(warp, kFirstAccumulator + i)[lane];
    }
  }
  const auto format = static_cast<Format>(site.from);
  multiply_add(tensor_core(site.to, format), {format, format, Format::f32, kRows, kK}, a.data(), b.data(), sums.data());
  place = places;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < kValuesOfD; ++i) result<std::uint32_t>(warp, i).set(lane, sums[*place++]);
  }
}

void fence_warpgroup(Warp& warp, Mask mask, const Site& site) {
  if (whole_warp(warp, mask, site)) warp.wgmma.fenced = true;
}

void commit_warpgroup(Warp& warp, Mask mask, const Site& site) {
  if (whole_warp(warp, mask, site)) ++warp.wgmma.committed;
}

void wait_warpgroup(Warp& warp, Mask mask, const Site& site) {
  if (!whole_warp(warp, mask, site)) return;
  WarpgroupState& state = warp.wgmma;
  const auto unfinished = static_cast<std::uint32_t>(site.kind);
  if (state.committed > unfinished) state.waited_for = std::max(state.waited_for, state.committed - unfinished);
  std::erase_if(state.readings, [&](const WarpgroupReading& reading) {
    if (reading.group > state.waited_for) return false;
    watch_reading(reading, warp);
    return true;
  });
}

void use_accumulators(Warp& warp, Mask mask, const Site& site) {
  if (mask == 0 || warp.failure) return;
  auto& groups = groups_of(warp, site);
  const auto is_read = site.table.begin() + site.count;
  if (site.flag) {
    groups[site.table.back()] = groups[site.table.front()];
    return;
  }
  for (auto number = site.table.begin(); number != is_read; ++number) {
    const std::uint32_t group = groups[*number];
    if (group <= warp.wgmma.waited_for) continue;
    return warp.fail(site, __builtin_ctz(mask),
                     fmt::format("an accumulator is read while the wgmma.mma_async that writes it is in flight: its "
                                 "group {}",
                                 group > warp.wgmma.committed ? "is not committed, and no wgmma.wait_group covers it"
                                                              : "is committed, and no wgmma.wait_group covers it"));
  }
  for (auto number = is_read; number != site.table.end(); ++number) groups[*number] = 0;
}

}  // namespace cubit::runtime::cpu::helpers
