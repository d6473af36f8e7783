// The weight formats in the kernels of family sm90. TMA box copies and wgmma access shared memory too, but not lane by
// lane, so that they are no accesses of a layout.
#include "ops/w4a16_gemm/weights.hpp"

#include <algorithm>
#include <iterator>

#include "ops/gemm/accesses.hpp"
#include "ops/gemm/boxes.hpp"
#include "ops/w4a16_gemm/accesses.hpp"
#include "ops/w4a16_gemm/description.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using gemm::NarrowTimes;
using gemm::WideTimes;

/// Groups of 32 have too few rows of words for that.
bool spreads_words(const W4a16Gemm& descriptor) { return descriptor.group_size != 32; }

std::vector<TileAccess> word_accesses(const W4a16Gemm& descriptor) {
  if (has_words_by_n(descriptor)) return {ldmatrix_of_words(descriptor)};
  const int strips = strips_of(descriptor);
  const bool spread = spreads_words(descriptor);
  return {{"loads of words", AccessKind::load, 16, kStageSteps * strips, [=](int instance, int lane) -> MaybeByte {
             return byte_at(gemm_lanes::copied_words_by_k(lane, instance % strips, instance / strips, spread));
           }}};
}

/// Producer warps put the activations of words by k in order; wgmma reads them.
std::vector<TileAccess> wide_activation_accesses(const W4a16Gemm& descriptor) {
  if (has_words_by_n(descriptor)) return {};
  constexpr int kRowVectors = gemm_lanes::kActivationBytes / 16;
  const int tile_m = descriptor.tile_m;
  const int warps = std::max(1, 2 * tile_m / 32);
  const auto at = [=](int instance, int lane) -> MaybeByte {
    const int item = instance % warps * 32 + lane;
    if (item >= 2 * tile_m) return std::nullopt;
    return TileByte{item % tile_m, item / tile_m * 128 + instance / warps * 16};
  };
  return {{"loads of activations", AccessKind::load, 16, warps * kRowVectors / 2, at},
          {"stores of activations", AccessKind::store, 16, warps * kRowVectors / 2, at}};
}

std::vector<TileAccess> narrow_activation_accesses(const W4a16Gemm& descriptor) {
  const int tiles = descriptor.tile_m / 8;
  if (has_words_by_n(descriptor)) return {ldmatrix_of_activations(tiles)};
  const bool spread = spreads_words(descriptor);
  return {{"loads of activations", AccessKind::load, 16, kStageSteps * tiles, [=](int instance, int lane) -> MaybeByte {
             return byte_at(gemm_lanes::copied_activations_by_k(lane, instance % tiles, instance / tiles, spread));
           }}};
}

std::vector<TileAccess> zero_accesses(const W4a16Gemm& descriptor) {
  return {gemm::row_copies("cp.async of zeros", descriptor.tile_n, stage_groups(descriptor), descriptor.bits, 1),
          loads_of_zeros(descriptor)};
}

void set_tiles(gemm::sm90::Weights& weights, const W4a16Gemm& descriptor) {
  const int columns = descriptor.tile_n;
  const int neighbours = box_columns(describe(descriptor));
  const int groups = stage_groups(descriptor);
  weights.words = has_words_by_n(descriptor) ? gemm::box_layout(gemm_lanes::kStageK, columns / 2, neighbours / 2)
                                             : gemm::box_layout(gemm_lanes::kStageK / 8, 4 * columns, 128);
  weights.scales = gemm::plain_box_layout(groups, 2 * columns, 2 * neighbours);
  if (stores_zeros(descriptor)) weights.zeros = {groups, columns / 2, columns / 2, {}};
}

WideTimes times_of_wide_blocks(const W4a16Gemm& descriptor) {
  const bool has_many_rows = descriptor.tile_m > 32;
  WideTimes times;
  times.second_tile = 13;  // one block per multiprocessor, so nothing else runs while a tile ends
  if (descriptor.format == W4Format::awq)
    times.factor = has_many_rows ? 0.95 : 1.03;  // the activations of other formats are reordered
  times.stage = descriptor.tile_m == 8 ? 0.45 : descriptor.tile_m == 16 ? 0.57 : has_many_rows ? 0.846 : 0.633;
  times.merge_slice = descriptor.tile_m == 8 ? 0.17 : descriptor.tile_m == 16 ? 0.35 : has_many_rows ? 0.1 : 0.4;
  if (descriptor.tile_m <= 16) return times;
  times.merge = has_many_rows ? 3.7 : 0.8;
  times.unclustered_slice = 0.3;
  times.merge_cluster = has_many_rows ? 1.2 : 1.6;
  times.chooses_by_merge = has_many_rows && !descriptor.is_gated();
  return times;
}

/// Pauses of a producer warp between two stages, as measured with zeros in groups of 128: a copy of zeros takes as long
/// as two pauses. Words by n, whose rows are short, need more pauses. See templates/kernels/gemm/sm90_narrow_gemm.cuh.
int producer_pauses(const W4a16Gemm& descriptor) {
  constexpr int kPausesOfZeros = 2;
  struct Pauses {
    int columns;
    int rows_8, rows_16;
    int by_n_rows_8, by_n_rows_16;
  };
  constexpr Pauses kMeasured[] = {{64, 1, 0, 4, 3}, {128, 1, 0, 2, 0}};
  const bool by_n = has_words_by_n(descriptor);
  const int copied_groups = stores_zeros(descriptor) ? stage_groups(descriptor) : 0;
  for (const Pauses& pauses : kMeasured) {
    if (pauses.columns != descriptor.tile_n) continue;
    const int of_8 = by_n ? pauses.by_n_rows_8 : pauses.rows_8;
    const int of_16 = by_n ? pauses.by_n_rows_16 : pauses.rows_16;
    const int measured = descriptor.tile_m > 8 ? of_16 : of_8;
    return measured > 0 ? std::max(0, measured + kPausesOfZeros * (1 - copied_groups)) : 0;
  }
  return 0;
}

/// As measured: the fewer the producer warps, the more stages arrive in order, as long as the producers are fast
/// enough.
int producer_warps(const W4a16Gemm& descriptor) {
  if (descriptor.tile_n == 224) return descriptor.tile_m > 8 ? 2 : 1;
  return descriptor.tile_n > 64 ? 2 : 4;
}

/// Measured times. With 160 columns and 16 rows a block has more sums to merge than warps, and no shared memory for the
/// sums next to its stages.
NarrowTimes times_of_narrow_blocks(const W4a16Gemm& descriptor) {
  struct Measured {
    int columns;
    double stage_8, stage_16;
    double merge_8, merge_16;
  };
  constexpr Measured kMeasured[] = {{32, 0.073, 0.080, 0.88, 0.88}, {64, 0.122, 0.134, 0.88, 0.88},
                                    {96, 0.180, 0.208, 0.88, 0.88}, {128, 0.243, 0.260, 0.88, 0.88},
                                    {160, 0.312, 0.370, 2.0, 3.8},  {224, 0.435, 0.497, 0, 0}};
  const Measured& times = *std::find_if(std::begin(kMeasured), std::end(kMeasured),
                                        [&](const Measured& one) { return one.columns == descriptor.tile_n; });
  const bool is_16_rows = descriptor.tile_m > 8;
  const double awq = descriptor.tile_n == 128 ? 1.05 : 1.13;  // rows of words are short
  const double stage = is_16_rows ? times.stage_16 : times.stage_8;
  return {.stage = descriptor.format == W4Format::awq ? awq * stage : stage,
          .merge = is_16_rows ? times.merge_16 : times.merge_8,
          .merge_slice = is_16_rows ? 0.195 : 0.09};
}

}  // namespace

bool reorders_activations(const W4a16Gemm& descriptor) { return descriptor.tile_m > 32 && !has_words_by_n(descriptor); }

gemm::sm90::Weights sm90_weights(const W4a16Gemm& descriptor) {
  const bool by_n = has_words_by_n(descriptor);
  gemm::sm90::Weights weights;
  set_tiles(weights, descriptor);
  weights.role = by_n ? format_role("weight_format/w4_copied_words.cuh", "cubit::W4CopiedWordsByN")
                      : format_role("weight_format/w4_copied_words.cuh", "cubit::W4CopiedWordsByK", ", kSpreadWords");
  weights.activations = activation_role(descriptor, spreads_words(descriptor));
  weights.stride_rule =
      "family sm90 reads rows by a tensor map, whose stride must be a multiple of 8 from 8 on (any stride: "
      "family=sm80, "
      "with tile_n=256, 64 or 32)";
  weights.spreads_words = spreads_words(descriptor);
  weights.accesses = {.words = word_accesses(descriptor),
                      .activations = {},
                      .scales = {loads_of_scales(descriptor)},
                      .zeros = zero_accesses(descriptor)};
  if (is_narrow(descriptor)) {
    weights.accesses.activations = narrow_activation_accesses(descriptor);
    weights.times = times_of_narrow_blocks(descriptor);
    weights.producer_warps = producer_warps(descriptor);
    weights.producer_pauses = producer_pauses(descriptor);
    if (by_n) weights.fragments = {"ldmatrix.x4", "ldmatrix.x4.trans"};
  } else {
    weights.accesses.activations = wide_activation_accesses(descriptor);
    weights.times = times_of_wide_blocks(descriptor);
    weights.reorders_activations = reorders_activations(descriptor);
    if (by_n) weights.fragments = {"ldmatrix.x4.trans"};
  }
  return weights;
}

}  // namespace cubit::ops::w4a16_gemm
