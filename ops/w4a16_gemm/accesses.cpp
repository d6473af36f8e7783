// Shared-memory accesses as the lanes make them. The places are those of templates/gemm/w4a16_gemm_lanes.h, which the
// kernels themselves use.
#include "ops/w4a16_gemm/accesses.hpp"

#include <utility>

#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;

TileAccess row_copies(std::string name, const W4a16Gemm& descriptor, int copy_bytes, int rows_at_once) {
  const int lanes = descriptor.tile_n / 8;
  const int rows = stage_groups(descriptor);
  return {std::move(name), AccessKind::store, copy_bytes, (rows + rows_at_once - 1) / rows_at_once,
          [=](int instance, int lane) -> MaybeByte {
            const int row = instance * rows_at_once + lane / lanes;
            if (row >= rows || lane >= rows_at_once * lanes) return std::nullopt;
            return TileByte{row, copy_bytes * (lane % lanes)};
          }};
}

TileAccess ldmatrix_of_words(int strips) {
  return {"ldmatrix.x4.trans of words", AccessKind::ldmatrix, 16, kStageSteps * strips,
          [=](int instance, int lane) -> MaybeByte {
            return byte_at(gemm_lanes::words_by_n(lane, instance % strips, instance / strips));
          }};
}

TileAccess ldmatrix_of_activations(int tiles) {
  return {"ldmatrix.x4 of activations", AccessKind::ldmatrix, 16, kStageSteps * tiles,
          [=](int instance, int lane) -> MaybeByte {
            return byte_at(gemm_lanes::activations_by_n(lane, instance % tiles, instance / tiles));
          }};
}

TileAccess loads_of_scales(const BlockPlan& block) {
  const int strips = block.strips();
  const int groups = stage_groups(block.descriptor);
  const bool by_n = has_words_by_n(block.descriptor);
  return {"loads of scales", AccessKind::load, by_n ? 16 : 8, groups * strips,
          [=](int instance, int lane) -> MaybeByte {
            const int strip = instance % strips;
            const int group = instance / strips;
            return byte_at(by_n ? gemm_lanes::scales_by_n(lane, strip, group)
                                : gemm_lanes::scales_by_k(lane, strip, group));
          }};
}

TileAccess loads_of_zeros(const BlockPlan& block) {
  const int strips = block.strips();
  const int groups = stage_groups(block.descriptor);
  const bool bytes = block.descriptor.bits == 8;
  return {"loads of zeros", AccessKind::load, 4, groups * strips, [=](int instance, int lane) -> MaybeByte {
            const int strip = instance % strips;
            const int group = instance / strips;
            return byte_at(bytes ? gemm_lanes::byte_zeros(lane, strip, group) : gemm_lanes::zeros(lane, strip, group));
          }};
}

}  // namespace cubit::ops::w4a16_gemm
