// The rules for a launch's public arguments: sizes, pointers and strides.
#include <cubit/w4a16_gemm.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/description.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

using Arguments = cubit_w4a16_gemm_arguments;

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

void check_tensors(const W4a16Gemm& descriptor, const Arguments& arguments) {
  require_pointer(arguments.g_idx != nullptr || !descriptor.activation_order, "g_idx");
  require_argument(arguments.groups >= 0, "groups", "it must not be negative", arguments.groups);
  require_argument(arguments.groups == 0 || descriptor.activation_order, "groups",
                   "it goes with activation_order=true only; else there are ceil(k / group_size) groups",
                   arguments.groups);
  check_weights(descriptor, arguments);
  gemm::require_16_bytes("scales", arguments.scales);
  if (descriptor.activation_order) gemm::require_16_bytes("g_idx", arguments.g_idx);
}

std::int64_t row_stride_of_weights(const Arguments& arguments) {
  return arguments.weight_stride == 0 ? arguments.k : arguments.weight_stride;
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
  if (descriptor.is_gated() && row_bytes / 2 % descriptor.alignment != 0) {
    throw Failure(Status::invalid_argument, fmt::format("n = {}", n),
                  fmt::format("the second half of a row of qweight begins at byte {}, not a multiple of alignment={}",
                              row_bytes / 2, descriptor.alignment),
                  remedy_of_unaligned_rows(descriptor));
  }
}

}  // namespace cubit::ops::w4a16_gemm
