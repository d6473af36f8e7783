// Facts of a GEMM's descriptor, and the rules for sizes, decompositions and tensors of launches.
#include "ops/gemm/gemm.hpp"

#include <fmt/format.h>

#include <limits>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::gemm {
namespace {

constexpr std::int64_t kMostColumns = std::int64_t{kMostColumnTiles} * gemm_lanes::kBlockColumns;
constexpr std::int64_t kMostRows = std::numeric_limits<int>::max() - 256;  // row indices are rounded up to whole tiles

/// Kernels read rows of activations in vectors of 16 bytes. A last group that is shorter needs no more than that.
void check_k(const GemmDescriptor& descriptor, std::int64_t k) {
  if (k < 1 || k > descriptor.most_k) {
    const bool is_usual = descriptor.most_k == GemmDescriptor{}.most_k;
    const std::string most = is_usual ? "2^30" : std::to_string(descriptor.most_k);
    throw Failure(Status::invalid_argument, fmt::format("k = {}", k), "it must be from 1 to " + most);
  }
  const int vector = 128 / descriptor.activation_bits;
  if (k % vector == 0) return;
  throw Failure(Status::invalid_argument, fmt::format("k = {}", k), fmt::format("it must be a multiple of {}", vector));
}

}  // namespace

bool is_narrow(const GemmDescriptor& descriptor) { return descriptor.tile_n < gemm_lanes::kBlockColumns; }

bool stores_zeros(const GemmDescriptor& descriptor) { return descriptor.groups && descriptor.groups->stores_zeros; }

bool has_indexed_groups(const GemmDescriptor& descriptor) { return descriptor.groups && descriptor.groups->is_indexed; }

bool stages_scales(const GemmDescriptor& descriptor) {
  return descriptor.groups && descriptor.groups->size != 0 && !descriptor.groups->is_indexed;
}

bool has_one_group(const GemmDescriptor& descriptor) { return descriptor.groups && descriptor.groups->size == 0; }

int groups_of(const GemmDescriptor& descriptor, int k) {
  const int size = descriptor.groups ? descriptor.groups->size : 0;
  return size == 0 ? 1 : (k + size - 1) / size;
}

int output_columns(const GemmDescriptor& descriptor, int n) { return descriptor.is_gated() ? n / 2 : n; }

int most_columns(const GemmDescriptor& descriptor) {
  return (kMostColumnTiles - (descriptor.layers - 1)) * descriptor.tile_n;
}

void check_sizes(const GemmDescriptor& descriptor, std::int64_t m, std::int64_t n, std::int64_t k) {
  require_argument(m >= 0 && m <= kMostRows, "m", "it must be from 0 to 2147483391", m);
  require_argument(n >= 8 && n <= kMostColumns && n % 8 == 0, "n", "it must be a multiple of 8 from 8 to 16776960", n);
  if (const int most = most_columns(descriptor); descriptor.tile_n != 0 && n > most) {
    throw Failure(Status::invalid_argument, fmt::format("n = {}", n),
                  fmt::format("with tile_n={0} it must be at most {1}, because a grid has at most {2} blocks of {0} "
                              "columns",
                              descriptor.tile_n, most, kMostColumnTiles),
                  "ask for tile_n=256");
  }
  require_argument(!descriptor.is_gated() || n % 16 == 0, "n",
                   "function=silu_gate has as many gate columns as up-projection columns: n must be a multiple of 16",
                   n);
  check_k(descriptor, k);
}

void check_decomposition(const GemmDescriptor& descriptor, Decomposition decomposition) {
  require_argument(decomposition >= Decomposition::automatic && decomposition <= kMostDecomposition, "decomposition",
                   "it must be 0 (automatic), 1 (data-parallel), 2 (split-K), 3 (stream-K) or 4 (split-K by atomics)",
                   static_cast<int>(decomposition));
  const auto refuse = [&](const char* why, const char* accepted) {
    throw Failure(Status::invalid_argument,
                  fmt::format("decomposition = {} of {}", static_cast<int>(decomposition), descriptor.text), why,
                  accepted);
  };
  if (decomposition == Decomposition::stream_k && descriptor.batch_invariant)
    refuse("balanced shares of all tiles, and with them the order of k, depend on the number of rows",
           "accepted: 0, 1 or 2, or a descriptor without batch_invariant");
  if (decomposition != Decomposition::split_k_atomic || descriptor.atomic_splits) return;
  if (descriptor.batch_invariant)
    refuse("sums that atomics add have no order of k, and batch_invariant=true needs one order",
           "accepted: 0, 1 or 2, or a descriptor with atomic_splits=true and without batch_invariant");
  refuse("the descriptor's kernel adds split-K slices in order only, with the same bits at every launch",
         "accepted: 0 to 3, or a descriptor with atomic_splits=true and tile_n=256");
}

void require_16_bytes(const char* name, const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % 16 == 0) return;
  throw Failure(Status::invalid_argument, fmt::format("{} at {:#x}", name, address),
                "the address is not a multiple of 16 bytes",
                "accepted: what cuMemAlloc gives, and multiples of 16 from there");
}

void require_stride(const char* name, std::int64_t stride, int element_bytes, int alignment) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const int unit = alignment / element_bytes;
  if (stride >= 0 && stride <= kMost && stride % unit == 0) return;
  require_argument(false, name, fmt::format("it must be a multiple of {} elements from 0 to 2^30", unit).c_str(),
                   stride);
}

void check_tensors(const GemmDescriptor& descriptor, const Problem& problem) {
  require_16_bytes("activations", problem.activations);
  require_16_bytes("output", problem.output);
  require_stride("activation_stride", problem.activation_stride, descriptor.activation_bits / 8);
  require_stride("output_stride", problem.output_stride, descriptor.output_bytes, descriptor.output_alignment);
  WrittenDimension rows[] = {{"output_stride", -1, problem.m, problem.output_stride}};
  require_apart(rows, output_columns(descriptor, problem.n));
  if (descriptor.bias) require_16_bytes("bias", problem.bias);
  if (!descriptor.residual) return;
  require_16_bytes("residual", problem.residual);
  require_stride("residual_stride", problem.residual_stride);
}

}  // namespace cubit::ops::gemm
