// The rules for a launch's public arguments: sizes, pointers and strides.
#include <cubit/w4a16_gemm.h>
#include <fmt/format.h>

#include <limits>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/launch.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

using Arguments = cubit_w4a16_gemm_arguments;

constexpr int kMostColumnTiles = 65535;  // the grid's second dimension
constexpr std::int64_t kMostColumns = std::int64_t{kMostColumnTiles} * gemm_lanes::kBlockColumns;
constexpr std::int64_t kMostK = std::int64_t{1} << 30;
constexpr std::int64_t kMostRows = std::numeric_limits<int>::max() - 256;  // row indices are rounded up to whole tiles

/// Tensors that the kernel reads and writes in vectors of 16 bytes, whatever the descriptor says.
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

void check_dense_weights(const W4a16Gemm& descriptor, const Arguments& arguments) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  require_16_bytes("weight", arguments.weight);
  require_stride("weight_stride", arguments.weight_stride);
  require_argument(arguments.weight_stride == 0 || arguments.weight_stride >= arguments.k, "weight_stride",
                   "it must be 0, for contiguous rows, or at least k", arguments.weight_stride);
  const std::int64_t half = row_stride_of_weights(arguments) * arguments.n;  // bytes of half of all rows
  if (!descriptor.is_gated() || half < kMostBytes) return;
  throw Failure(Status::invalid_argument, fmt::format("weight with n = {} and k = {}", arguments.n, arguments.k),
                fmt::format("its up-projection rows begin {} bytes behind the gate rows, and a tensor map has strides "
                            "below 2^40 bytes",
                            half),
                "accepted: smaller sizes");
}

void check_weights(const W4a16Gemm& descriptor, const Arguments& arguments) {
  if (descriptor.is_dense()) return check_dense_weights(descriptor, arguments);
  require_argument(arguments.weight_stride == 0, "weight_stride", "it goes with format=dense only",
                   arguments.weight_stride);
  check_rows_of_words(descriptor, arguments.n);
  require_alignment("qweight", arguments.qweight, nullptr, 0, 4, descriptor.alignment);
  if (stores_zeros(descriptor)) require_alignment("qzeros", arguments.qzeros, nullptr, 0, 4, descriptor.bits);
}

/// The error's remedy where rows of AWQ words are not as aligned as the descriptor says.
const char* remedy_of_unaligned_rows(W4a16Gemm descriptor) {
  descriptor.alignment = 4;
  return is_served(descriptor) ? "ask for alignment=4 in the descriptor"
                               : "ask for alignment=4 and tile_n=256, 64 or 32, and leave family out";
}

}  // namespace

void check_tensors(const BlockPlan& block, const Arguments& arguments) {
  const W4a16Gemm& descriptor = block.descriptor;
  block.pointers.check(&arguments);
  require_pointer(arguments.g_idx != nullptr || !descriptor.activation_order, "g_idx");
  check_weights(descriptor, arguments);
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

std::int64_t row_stride_of_weights(const Arguments& arguments) {
  return arguments.weight_stride == 0 ? arguments.k : arguments.weight_stride;
}

bool serves_sizes(const BlockPlan& block, const Arguments& arguments) {
  return arguments.n <= kMostColumnTiles * block.descriptor.tile_n &&
         (!block.needs_row_stride || has_row_stride(arguments));
}

bool has_row_stride(const Arguments& arguments) { return arguments.activation_stride > 0 || arguments.m <= 1; }

void check_sizes(const W4a16Gemm& descriptor, std::int64_t m, std::int64_t n, std::int64_t k) {
  require_argument(m >= 0 && m <= kMostRows, "m", "it must be from 0 to 2147483391", m);
  require_argument(n >= 8 && n <= kMostColumns && n % 8 == 0, "n", "it must be a multiple of 8 from 8 to 16776960", n);
  if (const int most = kMostColumnTiles * descriptor.tile_n; descriptor.tile_n != 0 && n > most) {
    throw Failure(Status::invalid_argument, fmt::format("n = {}", n),
                  fmt::format("with tile_n={0} it must be at most {1}, because a grid has at most {2} blocks of {0} "
                              "columns",
                              descriptor.tile_n, most, kMostColumnTiles),
                  "ask for tile_n=256");
  }
  require_argument(!descriptor.is_gated() || n % 16 == 0, "n",
                   "function=silu_gate has as many gate columns as up-projection columns: n must be a multiple of 16",
                   n);
  require_argument(k >= 1 && k <= kMostK, "k", "it must be from 1 to 2^30", k);
  if (!has_groups(descriptor)) {
    require_argument(k % 8 == 0, "k", "it must be a multiple of 8", k);
  } else if (k % descriptor.group_size != 0) {
    throw Failure(Status::invalid_argument, fmt::format("k = {}", k),
                  fmt::format("it is not a multiple of group_size={}", descriptor.group_size),
                  fmt::format("accepted: multiples of {}", descriptor.group_size));
  }
}

void check_rows_of_words(const W4a16Gemm& descriptor, std::int64_t n) {
  if (descriptor.format != W4Format::awq) return;
  const std::int64_t row_bytes = n / 2;
  if (row_bytes % descriptor.alignment != 0) {
    throw Failure(Status::invalid_argument, fmt::format("n = {}", n),
                  fmt::format("rows of qweight are {} bytes apart, not a multiple of alignment={}", row_bytes,
                              descriptor.alignment),
                  remedy_of_unaligned_rows(descriptor));
  }
  // The up-projection columns of a gated block begin n / 2 columns after its gate columns.
  if (descriptor.is_gated() && row_bytes / 2 % descriptor.alignment != 0) {
    throw Failure(Status::invalid_argument, fmt::format("n = {}", n),
                  fmt::format("the second half of a row of qweight begins at byte {}, not a multiple of alignment={}",
                              row_bytes / 2, descriptor.alignment),
                  remedy_of_unaligned_rows(descriptor));
  }
}

}  // namespace cubit::ops::w4a16_gemm
