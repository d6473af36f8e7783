// Executes wgmma for one warp: its 16 of the warpgroup's 64 rows. PTX ISA, "Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate Instructions".
//
// Results are in their registers immediately. A read of an accumulator is reported as an error unless a
// wgmma.wait_group has covered the group that writes it. For this the helper records the group of each accumulator
// register, also through moves. Shared memory is read immediately too; in checked launches it counts as being read
// until the wait.
//
// Numbers of 16 bits are those of mma.sync on sm_90 (tensor_core.hpp): all 16 products and the addend are summed at
// once with 25 bits, and the sum is truncated to an f32. All 32 products of e4m3 and the addend are summed at once with
// 13 bits, and the sum is truncated to 13 bits. That wgmma sums this way is an assumption from the same published
// source and was not verified on a GPU. Sums of signed bytes are exact modulo 2^32, or saturated.
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
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu::helpers {
namespace {

constexpr int kRows = 16;        // rows of a warp
constexpr int kColumns = 8;      // columns of one call
constexpr int kDepthBytes = 32;  // k of one instruction: 16 elements of 16 bits, or 32 bytes
constexpr int kMostDepth = kDepthBytes;
constexpr int kWarps = 4;
constexpr int kValuesOfD = kRows * kColumns / kLanes;

Format format_of(const Site& site) { return static_cast<Format>(site.from); }
int element_bytes(const Site& site) { return facts(format_of(site)).bits / 8; }
int depth(const Site& site) { return kDepthBytes / element_bytes(site); }

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

/// Calls body(chunk in memory, i, k) for every chunk of rows [first, first + count), or of columns for B. (i, k) is the
/// chunk's first element, counted from the start of the tile. Stops after warp.fail().
template <class Body>
void for_chunks(Warp& warp, const Site& site, const DescribedMatrix& matrix, int first, int count, Body body) {
  const int row_step = matrix.is_mn_major ? matrix.chunk_elements() : 1;
  const int k_step = matrix.is_mn_major ? 1 : matrix.chunk_elements();
  for (int i = 0; i < count; i += row_step) {
    for (int k = 0; k < depth(site); k += k_step) {
      const std::uint64_t address = chunk_address(matrix, first + i, k);
      const std::byte* const chunk = resolve_range(warp, site, ptx::Space::shared, false, address, kSwizzleChunk, 0);
      if (chunk == nullptr) return;
      body(chunk, i, k);
    }
  }
}

/// Stores the elements of a chunk at `dst`, `stride` apart.
template <class Element>
void unpack(const std::byte* chunk, int stride, std::uint32_t* dst) {
  std::array<Element, kSwizzleChunk / sizeof(Element)> values{};
  std::memcpy(values.data(), chunk, sizeof values);
  for (const Element value : values) {
    *dst = value;
    dst += stride;
  }
}

/// Reads a tile into `dst`, ordered by row and then by k.
void read_tile(Warp& warp, const Site& site, const DescribedMatrix& matrix, int first, int count, std::uint32_t* dst) {
  const auto unpack_chunk = matrix.element_bytes == 1 ? unpack<std::uint8_t> : unpack<std::uint16_t>;
  for_chunks(warp, site, matrix, first, count, [&](const std::byte* chunk, int i, int k) {
    unpack_chunk(chunk, matrix.is_mn_major ? depth(site) : 1, dst + i * depth(site) + k);
  });
}

bool read_described(Warp& warp, const Site& site, bool is_a, DescribedMatrix& dst) {
  dst.is_mn_major = has_option(site, is_a ? kTransposeA : kTransposeB);
  dst.element_bytes = element_bytes(site);
  return read_descriptor(warp, site, is_a ? 0 : kDescriptorOfB, dst.descriptor);
}

int first_row(const Warp& warp) { return warp.index % kWarps * kRows; }

void read_a(Warp& warp, const Site& site, std::uint32_t* dst) {
  if (has_option(site, kDescriptorA)) {
    DescribedMatrix matrix{};
    if (read_described(warp, site, true, matrix)) read_tile(warp, site, matrix, first_row(warp), kRows, dst);
    return;
  }
  const std::uint16_t* table = site.table.data();
  const int values = kRows * depth(site) / kLanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < values; ++i) dst[*table++] = element(warp, 0, lane, i, 8 * element_bytes(site));
  }
}

void negate(const Site& site, std::uint32_t* values, int count) {
  const std::uint32_t sign = 1U << (8 * element_bytes(site) - 1);
  for (int i = 0; i < count; ++i) values[i] ^= sign;
}

/// Adds products of signed bytes.
void multiply_add_bytes(const Site& site, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* sums) {
  const auto number = [](std::uint32_t bits) -> std::int32_t { return static_cast<std::int8_t>(bits); };
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      std::int32_t products = 0;
      for (int k = 0; k < kMostDepth; ++k)
        products += number(a[row * kMostDepth + k]) * number(b[column * kMostDepth + k]);
      std::uint32_t& sum = sums[row * kColumns + column];
      const std::int64_t exact = std::int64_t{static_cast<std::int32_t>(sum)} + products;
      sum = static_cast<std::uint32_t>(site.saturate ? saturated(exact) : exact);
    }
  }
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
    DescribedMatrix matrix{};
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
  const int k = depth(site);
  std::array<std::uint32_t, kRows * kMostDepth> a{};
  std::array<std::uint32_t, kColumns * kMostDepth> b{};
  std::array<std::uint32_t, kRows * kColumns> sums{};
  read_a(warp, site, a.data());
  DescribedMatrix matrix{};
  if (!read_described(warp, site, false, matrix)) return;
  read_tile(warp, site, matrix, site.kind, kColumns, b.data());
  if (has_option(site, kNegateA)) negate(site, a.data(), kRows * k);
  if (has_option(site, kNegateB)) negate(site, b.data(), kColumns * k);
  const std::uint16_t* const places = site.table.data() + kRows * k;
  const std::uint16_t* place = places;
  if (source_mask(warp, kScaleD) != 0) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < kValuesOfD; ++i) sums[*place++] = source<std::uint32_t>(warp, kFirstAccumulator + i)[lane];
    }
  }
  const Format format = format_of(site);
  if (is_integer(format)) {
    multiply_add_bytes(site, a.data(), b.data(), sums.data());
  } else {
    multiply_add(warpgroup_tensor_core(format), {format, format, Format::f32, kRows, k}, a.data(), b.data(),
                 sums.data());
  }
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
