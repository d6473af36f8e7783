// The rules for a launch's public arguments: sizes, pointers and strides.
#include <cubit/w4a16_gemm.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/description.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

using Arguments = cubit_w4a16_gemm_arguments;

struct NamedPointer {
  const char* name;
  const void* data;
};

void check_dense_weights(const W4a16Gemm& descriptor, const Arguments& arguments) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  gemm::require_16_bytes("weight", arguments.weight);
  gemm::require_stride("weight_stride", arguments.weight_stride);
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
  const auto check_layer = [&](int n, const NamedPointer& qweight, const NamedPointer& qzeros) {
    check_rows_of_words(descriptor, n);
    require_alignment(qweight.name, qweight.data, nullptr, 0, 4, descriptor.alignment);
    if (stores_zeros(descriptor)) require_alignment(qzeros.name, qzeros.data, nullptr, 0, 4, descriptor.bits);
  };
  check_layer(arguments.n, {"qweight", arguments.qweight}, {"qzeros", arguments.qzeros});
  if (descriptor.layers > 1)
    check_layer(arguments.n_2, {"qweight_2", arguments.qweight_2}, {"qzeros_2", arguments.qzeros_2});
  if (descriptor.layers > 2)
    check_layer(arguments.n_3, {"qweight_3", arguments.qweight_3}, {"qzeros_3", arguments.qzeros_3});
}

/// The error's remedy where rows of AWQ words are not as aligned as the descriptor says.
const char* remedy_of_unaligned_rows(W4a16Gemm descriptor) {
  descriptor.alignment = 4;
  return is_served(descriptor) ? "ask for alignment=4 in the descriptor"
                               : "ask for alignment=4 and tile_n=256, 64 or 32, and leave family out";
}

}  // namespace

void check_tensors(const W4a16Gemm& descriptor, const Arguments& arguments) {
  require_pointer(arguments.g_idx != nullptr || !descriptor.activation_order, "g_idx");
  require_argument(arguments.groups >= 0, "groups", "it must not be negative", arguments.groups);
  require_argument(arguments.groups == 0 || descriptor.activation_order, "groups",
                   "it goes with activation_order=true only; else there are ceil(k / group_size) groups",
                   arguments.groups);
  check_weights(descriptor, arguments);
  gemm::require_16_bytes("scales", arguments.scales);
  gemm::require_16_bytes("scales_2", arguments.scales_2);
  gemm::require_16_bytes("scales_3", arguments.scales_3);
  gemm::require_16_bytes("bias_2", arguments.bias_2);
  gemm::require_16_bytes("bias_3", arguments.bias_3);
  if (descriptor.activation_order) gemm::require_16_bytes("g_idx", arguments.g_idx);
}

std::int64_t row_stride_of_weights(const Arguments& arguments) {
  return arguments.weight_stride == 0 ? arguments.k : arguments.weight_stride;
}

std::int64_t columns_of_layers(const LayerColumns& columns) { return columns[0] + columns[1] + columns[2]; }

void check_layers(const W4a16Gemm& descriptor, const LayerColumns& columns) {
  constexpr const char* kNames[] = {"n", "n_2", "n_3"};
  constexpr std::int64_t kMost = std::int64_t{gemm::kMostColumnTiles} * gemm_lanes::kBlockColumns;
  for (int layer = 1; layer < gemm::kMostLayers; ++layer) {
    require_argument(columns[layer] == 0 || layer < descriptor.layers, kNames[layer],
                     layer == 1 ? "it goes with layers=2 and 3 only, and must be 0 else"
                                : "it goes with layers=3 only, and must be 0 else",
                     columns[layer]);
  }
  if (descriptor.layers == 1) return;
  for (int layer = 0; layer < descriptor.layers; ++layer)
    require_argument(columns[layer] >= 8 && columns[layer] <= kMost && columns[layer] % 8 == 0, kNames[layer],
                     "it must be a multiple of 8 from 8 to 16776960", columns[layer]);
  require_argument(!descriptor.is_gated() || columns[1] == columns[0], "n_2",
                   "function=silu_gate has as many up-projection columns as gate columns: n_2 must be n", columns[1]);
  require_argument(columns_of_layers(columns) <= kMost, "n + n_2 + n_3", "all layers have at most 16776960 columns",
                   columns_of_layers(columns));
}

void check_sizes(const W4a16Gemm& descriptor, std::int64_t m, std::int64_t n, std::int64_t k) {
  gemm::check_sizes(describe(descriptor), m, n, k);
}

void check_decomposition(const W4a16Gemm& descriptor, int decomposition) {
  gemm::check_decomposition(describe(descriptor), static_cast<gemm::Decomposition>(decomposition));
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
  if (descriptor.is_gated() && descriptor.layers == 1 && row_bytes / 2 % descriptor.alignment != 0) {
    throw Failure(Status::invalid_argument, fmt::format("n = {}", n),
                  fmt::format("the second half of a row of qweight begins at byte {}, not a multiple of alignment={}",
                              row_bytes / 2, descriptor.alignment),
                  remedy_of_unaligned_rows(descriptor));
  }
}

}  // namespace cubit::ops::w4a16_gemm
