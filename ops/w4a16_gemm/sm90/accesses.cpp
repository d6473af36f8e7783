// The shared-memory accesses of the loops of family sm90. TMA box copies and wgmma access shared memory too, but not
// lane by lane, so that they are no accesses of a layout.
#include <algorithm>

#include "ops/w4a16_gemm/accesses.hpp"
#include "ops/w4a16_gemm/sm90/sm90.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::sm90 {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;

std::vector<TileAccess> word_accesses(const BlockPlan& block) {
  const int strips = block.strips();
  if (has_words_by_n(block.descriptor)) return {ldmatrix_of_words(strips)};
  const bool spread = spreads_words(block.descriptor);
  return {{"loads of words", AccessKind::load, 16, kStageSteps * strips, [=](int instance, int lane) -> MaybeByte {
             return byte_at(gemm_lanes::copied_words_by_k(lane, instance % strips, instance / strips, spread));
           }}};
}

/// Producer warps put the activations of words by k in order; wgmma reads them.
std::vector<TileAccess> activation_accesses(const WidePlan& plan) {
  if (has_words_by_n(plan.block.descriptor)) return {};
  constexpr int kRowVectors = gemm_lanes::kActivationBytes / 16;
  const int tile_m = plan.block.descriptor.tile_m;
  const int warps = std::max(1, 2 * tile_m / 32);
  const auto at = [=](int instance, int lane) -> MaybeByte {
    const int item = instance % warps * 32 + lane;
    if (item >= 2 * tile_m) return std::nullopt;
    return TileByte{item % tile_m, item / tile_m * 128 + instance / warps * 16};
  };
  return {{"loads of activations", AccessKind::load, 16, warps * kRowVectors / 2, at},
          {"stores of activations", AccessKind::store, 16, warps * kRowVectors / 2, at}};
}

std::vector<TileAccess> activation_accesses(const NarrowPlan& plan) {
  const W4a16Gemm& descriptor = plan.block.descriptor;
  const int tiles = descriptor.tile_m / 8;
  if (has_words_by_n(descriptor)) return {ldmatrix_of_activations(tiles)};
  const bool spread = spreads_words(descriptor);
  return {{"loads of activations", AccessKind::load, 16, kStageSteps * tiles, [=](int instance, int lane) -> MaybeByte {
             return byte_at(gemm_lanes::copied_activations_by_k(lane, instance % tiles, instance / tiles, spread));
           }}};
}

std::vector<TileAccess> scale_accesses(const BlockPlan& block) { return {loads_of_scales(block)}; }

std::vector<TileAccess> zero_accesses(const BlockPlan& block) {
  return {row_copies("cp.async of zeros", block.descriptor, block.descriptor.bits, 1), loads_of_zeros(block)};
}

}  // namespace cubit::ops::w4a16_gemm::sm90
