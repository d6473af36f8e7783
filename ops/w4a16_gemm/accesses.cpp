// Shared-memory accesses as the lanes make them. The places are those of templates/gemm/gemm_lanes.h, which the
// kernels themselves use.
#include "ops/w4a16_gemm/accesses.hpp"

#include <fmt/format.h>

namespace cubit::ops::w4a16_gemm {

using codegen::AccessKind;
using codegen::TileAccess;

TileAccess ldmatrix_of_words(const W4a16Gemm& descriptor) {
  const int strips = strips_of(descriptor);
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

TileAccess loads_of_scales(const W4a16Gemm& descriptor) {
  const int strips = strips_of(descriptor);
  const int groups = stage_groups(descriptor);
  const bool by_n = has_words_by_n(descriptor);
  return {"loads of scales", AccessKind::load, by_n ? 16 : 8, groups * strips,
          [=](int instance, int lane) -> MaybeByte {
            const int strip = instance % strips;
            const int group = instance / strips;
            return byte_at(by_n ? gemm_lanes::scales_by_n(lane, strip, group)
                                : gemm_lanes::scales_by_k(lane, strip, group));
          }};
}

TileAccess loads_of_zeros(const W4a16Gemm& descriptor) {
  const int strips = strips_of(descriptor);
  const int groups = stage_groups(descriptor);
  const bool bytes = descriptor.bits == 8;
  return {"loads of zeros", AccessKind::load, 4, groups * strips, [=](int instance, int lane) -> MaybeByte {
            const int strip = instance % strips;
            const int group = instance / strips;
            return byte_at(bytes ? gemm_lanes::byte_zeros(lane, strip, group) : gemm_lanes::zeros(lane, strip, group));
          }};
}

gemm::Role format_role(std::string_view header, std::string_view type, std::string_view more_arguments) {
  return {header, fmt::format("{}<Element, word_stage, kGroup, kStoredZeros, kZeroOffset{}>", type, more_arguments)};
}

gemm::Role activation_role(const W4a16Gemm& descriptor, bool spread) {
  if (has_words_by_n(descriptor)) return {"gemm/matrix_activations.cuh", "cubit::MatrixActivations<activation_stage>"};
  return {"gemm/word_activations.cuh",
          fmt::format("cubit::WordActivations<activation_stage, {}, {}>", descriptor.bits == 4, spread)};
}

}  // namespace cubit::ops::w4a16_gemm
