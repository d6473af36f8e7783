// From public arguments to grid, splits, workspace and the kernel's parameters. No device call, no allocation.
#include <cubit/w4a16_gemm.h>
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"
#include "templates/kernels/w4a16_gemm_arguments.h"

namespace cubit::ops::w4a16_gemm {
namespace {

using Arguments = cubit_w4a16_gemm_arguments;

constexpr int kMostTiles = 65535;  // of columns: the grid's second dimension
constexpr std::int64_t kMostColumns = std::int64_t{kMostTiles} * gemm_lanes::kBlockColumns;
constexpr std::int64_t kMostK = std::int64_t{1} << 30;
constexpr std::int64_t kMostRows = std::numeric_limits<int>::max() - 64;  // row indices are rounded up to whole tiles

constexpr std::size_t kMapsAt = (sizeof(W4a16GemmArguments) + 63) / 64 * 64;

/// Of the sums of parts of k.
std::size_t partial_bytes(const Plan& plan, const Split& split) {
  if (split.splits == 1) return 0;
  const std::size_t tile_bytes = sizeof(float) * plan.descriptor.tile_n * plan.descriptor.tile_m;
  const std::int64_t places = split.turns > 0 ? split.turns : split.tiles() * (split.atomic ? 1 : split.splits);
  return workspace_part(static_cast<std::size_t>(places) * tile_bytes);
}

int chunks_of(int k) { return (k + gemm_lanes::kChunkK - 1) / gemm_lanes::kChunkK; }

/// Of activations that are put in order: whole chunks.
std::int64_t reordered_row_bytes(int k) { return std::int64_t{2} * gemm_lanes::kChunkK * chunks_of(k); }

/// Counters, sums of parts, activations in order.
std::size_t workspace_for(const Plan& plan, const Split& split, const Arguments& arguments) {
  const bool reorders = reorders_activations(plan) && arguments.m > 0;
  if (split.splits == 1 && !reorders) return 0;
  const std::int64_t reordered = reorders ? arguments.m * reordered_row_bytes(arguments.k) : 0;
  return kWorkspaceCounterBytes + partial_bytes(plan, split) + workspace_part(static_cast<std::size_t>(reordered));
}

/// Slices of activations: at most one for each block that there is room for at once, for each chunk, and for each
/// counter.
void add_slices(W4a16GemmArguments& result, const Plan& plan, const Arguments& arguments, const Split& split,
                const runtime::DeviceFacts& device, char* workspace) {
  constexpr std::int64_t kMostSlices = kReorderCounters - 2;
  const std::int64_t blocks = split.blocks > 0 ? split.blocks : split.tiles() * split.splits;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const std::int64_t chunks = chunks_of(arguments.k) * split.row_tiles;  // as many as fit a workspace, less than 2^31
  const std::int64_t slices = std::min({kMostSlices, blocks, resident, chunks});
  result.slices = static_cast<int>(slices);
  result.slice_chunks = static_cast<int>(chunks / slices);
  result.larger_slices = static_cast<int>(chunks % slices);
  result.slice_states = reinterpret_cast<unsigned*>(workspace) + merge_counters(plan);
  result.reordered = workspace + kWorkspaceCounterBytes + partial_bytes(plan, split);
  result.reordered_stride = reordered_row_bytes(arguments.k);
}

/// Of the launch arguments, which are in 16 bytes whatever the descriptor says.
void require_16_bytes(const char* name, const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % 16 == 0) return;
  throw Failure(Status::invalid_argument, fmt::format("{} at {:#x}", name, address),
                "the address is not a multiple of 16 bytes",
                "accepted: what cuMemAlloc gives, and multiples of 16 from there");
}

void require_stride(const char* name, std::int64_t stride) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  require_argument(stride >= 0 && stride <= kMost && stride % 8 == 0, name,
                   "it must be a multiple of 8 elements from 0 to 2^30", stride);
}

void check_words(const W4a16Gemm& descriptor, const Arguments& arguments) {
  check_rows_of_words(descriptor, arguments.n);
  require_pointer(arguments.qweight != nullptr, "qweight");
  require_alignment("qweight", arguments.qweight, nullptr, 0, 4, descriptor.alignment);
  if (!stores_zeros(descriptor)) return require_absent(arguments.qzeros, "qzeros", "a format that stores zeros");
  require_pointer(arguments.qzeros != nullptr, "qzeros");
  require_alignment("qzeros", arguments.qzeros, nullptr, 0, 4, descriptor.bits);
}

void check_tensors(const W4a16Gemm& descriptor, const Arguments& arguments) {
  require_pointer(arguments.activations != nullptr, "activations");
  require_pointer(arguments.scales != nullptr, "scales");
  require_pointer(arguments.output != nullptr, "output");
  require_pointer(arguments.bias != nullptr || !descriptor.bias, "bias");
  require_pointer(arguments.residual != nullptr || !descriptor.residual, "residual");
  require_pointer(arguments.g_idx != nullptr || !descriptor.activation_order, "g_idx");
  if (!descriptor.bias) require_absent(arguments.bias, "bias", "bias=true");
  if (!descriptor.residual) require_absent(arguments.residual, "residual", "residual=true");
  check_words(descriptor, arguments);
  require_16_bytes("activations", arguments.activations);
  require_16_bytes("scales", arguments.scales);
  require_16_bytes("output", arguments.output);
  require_stride("activation_stride", arguments.activation_stride);
  require_stride("output_stride", arguments.output_stride);
  WrittenDimension rows[] = {{"output_stride", -1, arguments.m, arguments.output_stride}};
  require_apart(rows, output_columns(descriptor, arguments.n));
  if (descriptor.bias) require_16_bytes("bias", arguments.bias);
  if (descriptor.activation_order) require_16_bytes("g_idx", arguments.g_idx);
  if (!descriptor.residual) return;
  require_16_bytes("residual", arguments.residual);
  require_stride("residual_stride", arguments.residual_stride);
}

W4a16GemmArguments kernel_arguments(const Plan& plan, const Arguments& arguments, const Split& split,
                                    const runtime::DeviceFacts& device, char* workspace) {
  W4a16GemmArguments result{};
  result.activations = arguments.activations;
  result.qweight = arguments.qweight;
  result.qzeros = arguments.qzeros;
  result.scales = arguments.scales;
  result.g_idx = reinterpret_cast<const unsigned*>(arguments.g_idx);
  result.bias = arguments.bias;
  result.residual = arguments.residual;
  result.output = arguments.output;
  if (split.splits > 1) {
    result.counters = reinterpret_cast<unsigned*>(workspace);
    result.partial = reinterpret_cast<float*>(workspace + kWorkspaceCounterBytes);
  }
  result.activation_stride = 2 * arguments.activation_stride;
  result.residual_stride = 2 * arguments.residual_stride;
  result.output_stride = 2 * arguments.output_stride;
  result.m = arguments.m;
  result.n = arguments.n;
  result.k = arguments.k;
  result.stages = split.stages;
  result.splits = plan.teams > 1 && !has_copied_teams(plan) ? plan.teams : split.splits;
  result.split_stages = split.stages / result.splits;
  result.row_tiles = static_cast<int>(split.row_tiles);
  result.clustered = split.paired ? 1 : 0;
  result.adds_atomically = split.atomic ? 1 : 0;
  if (split.turns > 0) result.whole_tiles = split.tiles();
  if (reorders_activations(plan)) add_slices(result, plan, arguments, split, device, workspace);
  if (split.blocks == 0) return result;
  const std::int64_t total = split.tiles() * split.stages;
  result.share = static_cast<int>(total / split.blocks);
  result.larger = static_cast<int>(total % split.blocks);
  return result;
}

/// How the map swizzles the boxes of a layout: by chunks of 16 bytes within 16, 32, 64 or 128.
runtime::TensorSwizzle swizzle_of(const codegen::TileLayout& layout) {
  using runtime::TensorSwizzle;
  constexpr TensorSwizzle kOfBits[] = {TensorSwizzle::none, TensorSwizzle::span32, TensorSwizzle::span64,
                                       TensorSwizzle::span128};
  return kOfBits[layout.swizzle.bits];
}

/// Words [k / 8, n] or by n [k, n / 8], activations [m, k], scales [groups, n]: boxes of a strip's columns, by n
/// and of scales of half a block's, of few columns those of all that are neighbours, and of 64 k's.
void add_maps(Launch& launch, const Plan& plan, const Arguments& arguments, const W4a16GemmArguments& parameters) {
  const W4a16Gemm& descriptor = plan.descriptor;
  const auto map_of = [](const void* base, int element_bytes, std::int64_t columns, std::int64_t rows,
                         std::int64_t row_bytes, int box_columns, int box_rows, runtime::TensorSwizzle swizzle) {
    runtime::TensorMap map;
    map.base = reinterpret_cast<std::uintptr_t>(base);
    map.element_bytes = element_bytes;
    map.rank = 2;
    map.sizes = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)};
    map.strides = {static_cast<std::uint64_t>(row_bytes)};
    map.box = {static_cast<std::uint32_t>(box_columns), static_cast<std::uint32_t>(box_rows)};
    map.swizzle = swizzle;
    return map;
  };
  constexpr int kMapBytes = sizeof(runtime::EncodedTensorMap);
  const std::int64_t n = arguments.n;
  const std::int64_t k = arguments.k;
  const bool by_n = descriptor.format == W4Format::awq;
  const int neighbours =
      has_copied_teams(plan) ? output_columns(descriptor, descriptor.tile_n) : gemm_lanes::kBlockColumns / 2;
  const int word_columns = by_n ? neighbours / 8 : gemm_lanes::kStripColumns;
  runtime::TensorMap words =
      by_n ? map_of(arguments.qweight, 4, n / 8, k, n / 2, word_columns, gemm_lanes::kStageK, swizzle_of(plan.words))
           : map_of(arguments.qweight, 4, n, k / 8, 4 * n, word_columns, gemm_lanes::kStageK / 8,
                    swizzle_of(plan.words));
  // By n a block's part of a row is less than a line, and its neighbours want the rest at about the same time.
  if (by_n && has_copied_teams(plan)) words.l2_bytes = 128;
  launch.maps.add(kMapsAt, words);
  // Of one row there is no stride; a map wants one.
  const std::int64_t row_bytes = arguments.m == 1 ? (2 * k + 15) / 16 * 16 : 2 * arguments.activation_stride;
  const runtime::TensorSwizzle swizzle = swizzle_of(plan.activations);
  launch.maps.add(kMapsAt + kMapBytes, map_of(arguments.activations, 2, k, arguments.m, row_bytes, gemm_lanes::kChunkK,
                                              descriptor.tile_m, swizzle));
  launch.maps.add(kMapsAt + 2 * kMapBytes, map_of(arguments.scales, 2, n, groups_of(descriptor, arguments.k), 2 * n,
                                                  neighbours, stage_groups(descriptor), swizzle_of(plan.scales)));
  if (!reorders_activations(plan)) return;
  const std::int64_t ordered_bytes = parameters.reordered_stride;
  launch.maps.add(kMapsAt + 3 * kMapBytes, map_of(parameters.reordered, 2, ordered_bytes / 2, arguments.m,
                                                  ordered_bytes, gemm_lanes::kChunkK, descriptor.tile_m, swizzle));
}

}  // namespace

void check_sizes(const W4a16Gemm& descriptor, std::int64_t m, std::int64_t n, std::int64_t k) {
  require_argument(m >= 0 && m <= kMostRows, "m", "it must be from 0 to 2147483583", m);
  require_argument(n >= 8 && n <= kMostColumns && n % 8 == 0, "n", "it must be a multiple of 8 from 8 to 16776960", n);
  if (const int most = kMostTiles * descriptor.tile_n; n > most) {
    throw Failure(Status::invalid_argument, fmt::format("n = {}", n),
                  fmt::format("with tile_n={} it must be at most {}, of which each {} columns are a block",
                              descriptor.tile_n, most, descriptor.tile_n),
                  "ask for tile_n=256");
  }
  require_argument(!descriptor.is_gated() || n % 16 == 0, "n",
                   "function=silu_gate has gates and as many columns that they are for: it must be a multiple of 16",
                   n);
  require_argument(k >= 1 && k <= kMostK, "k", "it must be from 1 to 2^30", k);
  if (descriptor.group_size == 0) {
    require_argument(k % 8 == 0, "k", "it must be a multiple of 8", k);
  } else if (k % descriptor.group_size != 0) {
    throw Failure(Status::invalid_argument, fmt::format("k = {}", k),
                  fmt::format("it is not a multiple of group_size={}", descriptor.group_size),
                  fmt::format("accepted: multiples of {}", descriptor.group_size));
  }
}

void check_rows_of_words(const W4a16Gemm& descriptor, std::int64_t n) {
  if (descriptor.format != W4Format::awq) return;
  const char* const remedy = descriptor.family == "sm90" || is_of_sm90_alone(descriptor.tile_n)
                                 ? "ask for alignment=4 and tile_n=256, 64 or 32, and leave family out"
                                 : "ask for alignment=4 in the descriptor";
  const std::int64_t row_bytes = n / 2;
  if (row_bytes % descriptor.alignment != 0) {
    throw Failure(Status::invalid_argument, fmt::format("n = {}", n),
                  fmt::format("rows of qweight are {} bytes apart, not a multiple of alignment={}", row_bytes,
                              descriptor.alignment),
                  remedy);
  }
  // Gated, a block's second columns begin n / 2 after its first.
  if (descriptor.is_gated() && row_bytes / 2 % descriptor.alignment != 0) {
    throw Failure(Status::invalid_argument, fmt::format("n = {}", n),
                  fmt::format("the second half of a row of qweight begins at byte {}, not a multiple of alignment={}",
                              row_bytes / 2, descriptor.alignment),
                  remedy);
  }
}

std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_w4a16_gemm_arguments");
  check_sizes(plan.descriptor, arguments.m, arguments.n, arguments.k);
  return workspace_for(plan, choose_split(plan, arguments, device), arguments);
}

Launch encode(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
              const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_w4a16_gemm_arguments");
  check_sizes(plan.descriptor, arguments.m, arguments.n, arguments.k);
  const Split split = choose_split(plan, arguments, device);
  Launch launch;
  launch.empty = arguments.m == 0;
  if (launch.empty) return launch;
  check_tensors(plan.descriptor, arguments);
  if (plan.family == "sm90") {
    require_argument(arguments.activation_stride > 0 || arguments.m == 1, "activation_stride",
                     "family sm90 reads rows by a tensor map, whose stride must be a multiple of 8 from 8 on (any "
                     "stride: family=sm80, with tile_n=256, 64 or 32)",
                     arguments.activation_stride);
  }
  require_workspace(workspace, given, workspace_for(plan, split, arguments));
  const W4a16GemmArguments parameters = kernel_arguments(plan, arguments, split, device, static_cast<char*>(workspace));
  // Blocks of the same columns are neighbours: they read the same weights at about the same time.
  launch.shape.grid = {static_cast<unsigned>(split.row_tiles), static_cast<unsigned>(split.column_tiles),
                       static_cast<unsigned>(split.splits)};
  if (split.paired) {
    launch.shape.grid = {static_cast<unsigned>(split.splits), static_cast<unsigned>(split.column_tiles),
                         static_cast<unsigned>(split.row_tiles)};
    launch.shape.cluster_blocks = 2;
  }
  if (split.blocks > 0) launch.shape.grid = {static_cast<unsigned>(split.blocks), 1, 1};
  if (split.turns > 0) launch.shape.grid = {static_cast<unsigned>(split.turns), 1, 1};
  launch.shape.threads = static_cast<unsigned>(plan.threads());
  launch.shape.dynamic_shared_memory = static_cast<unsigned>(plan.shared_memory);
  static_assert(kMapsAt + 4 * sizeof(runtime::EncodedTensorMap) <= sizeof launch.parameters);
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  launch.spread_blocks(plan.blocks_per_sm, device);
  if (plan.family != "sm90") return launch;
  add_maps(launch, plan, arguments, parameters);
  launch.parameter_bytes = kMapsAt + launch.maps.all().size() * sizeof(runtime::EncodedTensorMap);
  return launch;
}

}  // namespace cubit::ops::w4a16_gemm
