// Every shared-memory access of the mma.sync kernel's loop: the threads' copies, and the lanes' loads.
#include "ops/gemm/accesses.hpp"

#include <fmt/format.h>

#include <utility>

#include "ops/gemm/mma_sync/kernel.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::gemm::mma_sync {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;

std::string copies_name(const Kernel& kernel, const char* tensor) {
  return fmt::format("{} of {}", kernel.copies->access, tensor);
}

/// Copies by all warps that share a ring: an instance is one warp's part of a round of copies.
TileAccess copies(const char* tensor, const Kernel& kernel, int rows, int row_bytes, int copy_bytes) {
  const int warps = kernel.block.warps;
  const int threads = 32 * warps;
  const int row_copies = row_bytes / copy_bytes;
  return {copies_name(kernel, tensor), AccessKind::store, copy_bytes, rows * row_copies / 32,
          [=](int instance, int lane) -> MaybeByte {
            const int thread = instance % warps * 32 + lane;
            const gemm_lanes::Place place =
                gemm_lanes::copied_vector(instance / warps, thread, threads, row_copies, copy_bytes);
            return codegen::TileByte{place.row, place.byte};
          }};
}

TileAccess copies_of_rows(const char* tensor, const Kernel& kernel, int copy_bytes) {
  const int columns = kernel.block.descriptor.tile_n;
  return row_copies(copies_name(kernel, tensor), columns, stage_groups(kernel.block), copy_bytes, 32 / (columns / 8));
}

std::vector<TileAccess> with_copies(TileAccess first, const std::vector<TileAccess>& loads) {
  std::vector<TileAccess> all = {std::move(first)};
  all.insert(all.end(), loads.begin(), loads.end());
  return all;
}

}  // namespace

std::vector<TileAccess> word_accesses(const Kernel& kernel) {
  const codegen::TileLayout& words = kernel.block.tiles.words;
  return with_copies(copies("words", kernel, words.rows, words.row_bytes, kernel.weights.copy_bytes),
                     kernel.weights.accesses.words);
}

std::vector<TileAccess> activation_accesses(const Kernel& kernel) {
  const BlockPlan& block = kernel.block;
  return with_copies(copies("activations", kernel, block.descriptor.tile_m, activation_row_bytes(block), 16),
                     kernel.weights.accesses.activations);
}

StageAccesses stage_accesses(const Kernel& kernel) {
  const BlockPlan& block = kernel.block;
  StageAccesses accesses{word_accesses(kernel), activation_accesses(kernel), {}, {}};
  if (!block.descriptor.groups) return accesses;
  accesses.scales = with_copies(copies_of_rows("scales", kernel, 16), kernel.weights.accesses.scales);
  const int zero_bytes = block.descriptor.weight_bits;  // a lane copies 8 zeros, which have as many bits as weights
  accesses.zeros = with_copies(copies_of_rows("zeros", kernel, zero_bytes), kernel.weights.accesses.zeros);
  return accesses;
}

}  // namespace cubit::ops::gemm::mma_sync
