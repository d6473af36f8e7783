// Every shared-memory access of the mma.sync kernel's loop and of its weight formats.
#include <fmt/format.h>

#include "ops/w4a16_gemm/accesses.hpp"
#include "ops/w4a16_gemm/mma_sync/kernel.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::mma_sync {
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
            return byte_at(gemm_lanes::copied_vector(instance / warps, thread, threads, row_copies, copy_bytes));
          }};
}

TileAccess copies_of_rows(const char* tensor, const Kernel& kernel, int copy_bytes) {
  const W4a16Gemm& descriptor = kernel.block.descriptor;
  return row_copies(copies_name(kernel, tensor), descriptor, copy_bytes, 32 / (descriptor.tile_n / 8));
}

TileAccess loads_of_words(const BlockPlan& block) {
  const int strips = block.strips();
  if (block.descriptor.bits == 8) {
    return {"loads of words", AccessKind::load, 16, 2 * kStageSteps * strips, [=](int instance, int lane) -> MaybeByte {
              const int half = instance / strips % 2;
              const int step = instance / strips / 2;
              return byte_at(gemm_lanes::byte_words_by_k(lane, instance % strips, step, half));
            }};
  }
  return {"loads of words", AccessKind::load, 16, kStageSteps * strips, [=](int instance, int lane) -> MaybeByte {
            return byte_at(gemm_lanes::words_by_k(lane, instance % strips, instance / strips));
          }};
}

TileAccess loads_of_activations(int tiles) {
  return {"loads of activations", AccessKind::load, 16, kStageSteps * tiles, [=](int instance, int lane) -> MaybeByte {
            return byte_at(gemm_lanes::activations_by_k(lane, instance % tiles, instance / tiles));
          }};
}

}  // namespace

std::vector<TileAccess> word_accesses(const Kernel& kernel) {
  const BlockPlan& block = kernel.block;
  const codegen::TileLayout& words = block.tiles.words;
  return {copies("words", kernel, words.rows, words.row_bytes, kernel.copy_bytes),
          has_words_by_n(block.descriptor) ? ldmatrix_of_words(block.strips()) : loads_of_words(block)};
}

std::vector<TileAccess> activation_accesses(const Kernel& kernel) {
  const W4a16Gemm& descriptor = kernel.block.descriptor;
  const int tiles = descriptor.tile_m / 8;
  return {copies("activations", kernel, descriptor.tile_m, gemm_lanes::kActivationBytes, 16),
          has_words_by_n(descriptor) ? ldmatrix_of_activations(tiles) : loads_of_activations(tiles)};
}

std::vector<TileAccess> scale_accesses(const Kernel& kernel) {
  return {copies_of_rows("scales", kernel, 16), loads_of_scales(kernel.block)};
}

std::vector<TileAccess> zero_accesses(const Kernel& kernel) {
  return {copies_of_rows("zeros", kernel, kernel.block.descriptor.bits), loads_of_zeros(kernel.block)};
}

}  // namespace cubit::ops::w4a16_gemm::mma_sync
