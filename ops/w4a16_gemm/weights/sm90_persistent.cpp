// The weight formats in the kernels of family sm90_persistent. TMA copies, bulk copies and wgmma access shared memory
// too, but not lane by lane, so that they are no accesses of a layout.
#include "ops/w4a16_gemm/weights.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ops/gemm/accesses.hpp"
#include "ops/gemm/boxes.hpp"
#include "ops/w4a16_gemm/description.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/persistent_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using gemm::MaybeByte;
using gemm::PersistentTimes;
using persistent_lanes::kConsumerWarps;

TileByte byte_at(persistent_lanes::Place place) { return {place.row, place.byte}; }

template <bool IsGated>
TileAccess loads_by_k() {
  constexpr int kRows = 2 * persistent_lanes::kSteps;
  constexpr int kParts = IsGated ? 2 : 1;
  return {"loads of words", AccessKind::load, IsGated ? 4 : 8, kParts * kRows * kConsumerWarps,
          [](int instance, int lane) -> MaybeByte {
            const int row = instance / kConsumerWarps % kRows;
            return byte_at(persistent_lanes::FeaturesByK<IsGated>::word(
                lane, instance % kConsumerWarps, instance / kConsumerWarps / kRows, row / 2, row % 2));
          }};
}

template <bool IsGated>
TileAccess loads_by_n() {
  constexpr int kPairs = persistent_lanes::kSteps / 2;
  constexpr int kParts = IsGated ? 2 : 1;
  return {
      "ldmatrix.x4.trans of words", AccessKind::ldmatrix, 16, kParts * kPairs * kConsumerWarps,
      [](int instance, int lane) -> MaybeByte {
        return byte_at(persistent_lanes::FeaturesByN<IsGated>::words(
            lane, instance % kConsumerWarps, instance / kConsumerWarps / kPairs, instance / kConsumerWarps % kPairs));
      }};
}

template <class Features, bool IsGated>
TileAccess stores_of_outputs(int blocks) {
  constexpr int kStores = Features::kRuns;
  constexpr int kRunBytes = 2 * (IsGated ? 2 : 4) / kStores;
  return {"stores of outputs", AccessKind::store, kRunBytes, kStores * blocks * kConsumerWarps,
          [](int instance, int lane) -> MaybeByte {
            const int store = instance / kConsumerWarps;
            return byte_at(persistent_lanes::stored_outputs<Features, IsGated>(lane, instance % kConsumerWarps,
                                                                               store / kStores, store % kStores));
          }};
}

std::vector<TileAccess> lane_accesses(const W4a16Gemm& descriptor) {
  if (has_words_by_n(descriptor)) return {descriptor.is_gated() ? loads_by_n<true>() : loads_by_n<false>()};
  return {descriptor.is_gated() ? loads_by_k<true>() : loads_by_k<false>()};
}

/// `Features`: the features of a lane, by whether they are gated.
template <template <bool> class Features>
std::vector<TileAccess> staging_accesses(const W4a16Gemm& descriptor) {
  const int blocks = gemm::sm90_persistent::store_rows(describe(descriptor)) / 8;
  return {descriptor.is_gated() ? stores_of_outputs<Features<true>, true>(blocks)
                                : stores_of_outputs<Features<false>, false>(blocks)};
}

codegen::TileLayout word_layout(const W4a16Gemm& descriptor) {
  const int boxes = descriptor.is_gated() ? 2 : 1;
  if (has_words_by_n(descriptor)) {
    constexpr int kRowBytes = persistent_lanes::kBlockFeatures / 2;
    return gemm::box_layout(persistent_lanes::kSlabK, kRowBytes, kRowBytes / boxes);
  }
  constexpr int kRowBytes = 4 * persistent_lanes::kBlockFeatures;
  return gemm::plain_box_layout(persistent_lanes::kSlabK / 8, kRowBytes, kRowBytes / boxes);
}

/// Small groups change the unit of the sums more often: see templates/weight_format/w4_group_scales.cuh.
double cost_of_groups(int group_size) {
  if (group_size == 32) return 1.8;
  return group_size == 64 ? 1.11 : 1;
}

/// Times of an H200. With many rows the tensor cores bind, and with all of them at work the power limit; with few rows
/// the time between a warpgroup's products does.
PersistentTimes times_of_words(const W4a16Gemm& descriptor) {
  const double rows = descriptor.tile_m;
  const double groups = descriptor.activation_order ? 1 : cost_of_groups(descriptor.group_size);
  const double slab = descriptor.activation_order ? std::max(0.66, 0.3 + 0.0026 * rows)  // looking up takes long
                                                  : std::max(0.45, 0.325 + 0.00117 * rows);
  return {.slab = groups * slab,
          .full_slab = groups * std::max(slab, 0.00277 * rows),
          .epilogue = 0.4 + 0.0065 * rows,
          .exchange = 1.5 + 0.005 * rows,
          .handover = 5.2,
          .partial = 0.004 * rows};
}

/// Estimates for an H200, where nobody has timed dense weights yet. With many rows the tensor cores bind, and with few
/// rows the bytes of weights: 128 features of a slab per block, while the memory delivers 4.2 megabytes per microsecond
/// to all blocks at work.
PersistentTimes times_of_dense_weights(double rows) {
  return {.slab = std::max(0.27, 0.00234 * rows),
          .full_slab = std::max(0.52, 0.00266 * rows),
          .epilogue = 0.4 + 0.0065 * rows,
          .exchange = 1.5 + 0.005 * rows,
          .handover = 5.2,
          .partial = 0.004 * rows};
}

/// A row of the table of scales and zeros: see templates/weight_format/w4_ordered_operand.cuh.
int group_row_bytes(const W4a16Gemm& descriptor) {
  constexpr int kSkewBytes = 32;
  return (stores_zeros(descriptor) ? 4 : 2) * persistent_lanes::kBlockFeatures + kSkewBytes;
}

gemm::Role role_of_words(const W4a16Gemm& descriptor) {
  if (descriptor.activation_order) {
    return {"weight_format/w4_ordered_operand.cuh",
            fmt::format("cubit::W4OrderedOperand<Element, word_stage, {}, {}, {}, kTableAt>", descriptor.is_gated(),
                        stores_zeros(descriptor), zero_offset(descriptor))};
  }
  const char* const type = has_words_by_n(descriptor) ? "cubit::W4OperandByN" : "cubit::W4OperandByK";
  return {"weight_format/w4_register_operand.cuh",
          fmt::format("{}<Element, word_stage, {}, {}, {}, {}>", type, descriptor.is_gated(), descriptor.group_size,
                      stores_zeros(descriptor), zero_offset(descriptor))};
}

gemm::sm90_persistent::Weights packed_weights(const W4a16Gemm& descriptor) {
  gemm::sm90_persistent::Weights weights;
  weights.stage_k = persistent_lanes::kSlabK;
  weights.words = word_layout(descriptor);
  weights.accesses.words = lane_accesses(descriptor);
  weights.staging = has_words_by_n(descriptor) ? staging_accesses<persistent_lanes::FeaturesByN>(descriptor)
                                               : staging_accesses<persistent_lanes::FeaturesByK>(descriptor);
  weights.role = role_of_words(descriptor);
  weights.times = times_of_words(descriptor);
  if (descriptor.activation_order) {
    weights.group_row_bytes = group_row_bytes(descriptor);
    weights.index_bytes = 4 * persistent_lanes::kSlabK;
  }
  weights.fragments = {"wgmma.m64k16 A, 16-bit", "wgmma.m64n8 D, 32-bit"};
  if (has_words_by_n(descriptor)) weights.fragments.push_back("ldmatrix.x4.trans");
  weights.stride_rule =
      "family sm90_persistent reads rows by a tensor map, whose stride must be a multiple of 8 from 8 on (any stride: "
      "tile_m=64, tile_n=256 and family=sm80)";
  return weights;
}

/// wgmma reads the rows of weights where the copy has put them, so that no lane accesses the weights.
gemm::sm90_persistent::Weights dense_weights(const W4a16Gemm& descriptor) {
  constexpr int kRowBytes = 2 * persistent_lanes::kSlabK;
  gemm::sm90_persistent::Weights weights;
  weights.stage_k = persistent_lanes::kSlabK;
  weights.words = gemm::box_layout(persistent_lanes::kBlockFeatures, kRowBytes, kRowBytes);
  weights.staging = staging_accesses<persistent_lanes::FeaturesInOrder>(descriptor);
  weights.role = {"weight_format/dense_operand.cuh", fmt::format("cubit::DenseOperand<{}>", descriptor.is_gated())};
  weights.times = times_of_dense_weights(descriptor.tile_m);
  weights.fragments = {"wgmma.m64n8 D, 32-bit"};
  weights.in_shared_memory = true;
  weights.stride_rule =
      "dense weights and rows are read by tensor maps, whose strides must be multiples of 8 from 8 on";
  return weights;
}

}  // namespace

gemm::sm90_persistent::Weights persistent_weights(const W4a16Gemm& descriptor) {
  return descriptor.is_dense() ? dense_weights(descriptor) : packed_weights(descriptor);
}

}  // namespace cubit::ops::w4a16_gemm
