// The weight formats in the mma.sync kernels of families sm75 and sm80.
#include "ops/w4a16_gemm/weights.hpp"

#include <fmt/format.h>

#include "ops/w4a16_gemm/accesses.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using gemm::NarrowTimes;
using gemm::WideTimes;

WideTimes wide_times(const W4a16Gemm& descriptor) {
  const int tile_m = descriptor.tile_m;
  WideTimes times;
  times.second_tile = 72.0 / tile_m;  // the shorter a stage, the longer an empty ring takes to fill
  if (descriptor.format == W4Format::awq) times.factor = 1.03;
  times.stage = tile_m == 8 ? 0.45 : tile_m == 16 ? 0.57 : tile_m == 32 ? 0.88 : 1.6;
  times.stage *= descriptor.bits / 4.0;
  if (descriptor.activation_order) times.stage *= 3.5;  // lanes read scales and zeros from global memory
  times.merge_slice = tile_m == 8 ? 0.17 : tile_m == 16 ? 0.35 : tile_m == 32 ? 0.44 : 0.15;
  return times;
}

/// Consumer warps copy their own stages: 16 rows of activations are as many bytes as the words of 64 columns.
NarrowTimes narrow_times(const W4a16Gemm& descriptor) {
  if (descriptor.activation_order) {
    const bool is_32_columns = descriptor.tile_n == 32;
    const double of_8_rows = is_32_columns ? 0.155 : 0.244;
    const double of_16_rows = is_32_columns ? 0.2 : 0.265;
    return {.stage = (descriptor.tile_m > 8 ? of_16_rows : of_8_rows) * descriptor.bits / 4.0};
  }
  const double columns = descriptor.tile_n * descriptor.bits / 4.0;  // columns of 4 bits with as many bytes
  const double of_column = descriptor.bits == 8 ? 0.0018 : 0.002;    // three H200s, M=1 at 8192²
  const double awq = descriptor.tile_n == 32 ? 2 : 1.4;              // rows of words of 16 bytes, and of 32
  const double stage = descriptor.tile_m > 8 ? 0.043 + 0.0018 * columns : of_column * columns;
  return {.stage = descriptor.format == W4Format::awq ? awq * stage : stage};
}

TileAccess loads_of_words(const W4a16Gemm& descriptor) {
  const int strips = strips_of(descriptor);
  if (descriptor.bits == 8) {
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

gemm::StageAccesses accesses_of(const W4a16Gemm& descriptor) {
  const int tiles = descriptor.tile_m / 8;
  const bool by_n = has_words_by_n(descriptor);
  return {.words = {by_n ? ldmatrix_of_words(descriptor) : loads_of_words(descriptor)},
          .activations = {by_n ? ldmatrix_of_activations(tiles) : loads_of_activations(tiles)},
          .scales = {loads_of_scales(descriptor)},
          .zeros = {loads_of_zeros(descriptor)}};
}

gemm::Role role_of_packed(const W4a16Gemm& descriptor) {
  const char* const layers = descriptor.layers > 1 ? ", cubit::FusedLayer" : "";
  if (descriptor.bits == 8) return format_role("weight_format/w8_words_by_k.cuh", "cubit::W8WordsByK", layers);
  if (has_words_by_n(descriptor)) return format_role("weight_format/w4_words_by_n.cuh", "cubit::W4WordsByN", layers);
  return format_role("weight_format/w4_words_by_k.cuh", "cubit::W4WordsByK", layers);
}

gemm::Role role_of(const W4a16Gemm& descriptor) {
  gemm::Role packed = role_of_packed(descriptor);
  if (!descriptor.activation_order) return packed;
  return {"weight_format/w4_activation_order.cuh",
          fmt::format("cubit::OrderedWords<Element, {}, kStoredZeros, kZeroOffset, kTileN, kFactorTableBytes>",
                      packed.type),
          packed.header};
}

/// The compiler spilled with four tiles of 32 rows of bytes, and with two tiles of awq's groups of 32 in bf16, whose
/// loop is unrolled.
int most_merged_tiles(const W4a16Gemm& descriptor) {
  constexpr int kMost = 4;  // 32 loads of four slices: what the loop's registers hold once the loop is over
  const bool unrolls_four_groups = descriptor.group_size == 32 && descriptor.tile_m == 16;
  if (has_words_by_n(descriptor) && descriptor.element == Element::bf16 && unrolls_four_groups) return 1;
  return descriptor.bits == 8 && descriptor.tile_m == 32 ? 2 : kMost;
}

/// Registers of a thread's scales and zeros of a stage.
int held_registers(const W4a16Gemm& descriptor) {
  const int zeros = stores_zeros(descriptor) ? descriptor.bits / 4 : 0;
  return stages_scales(descriptor) ? 4 + zeros : 0;
}

/// With activation order there are no products of a group, but the factors and operands of a step.
void count_registers(gemm::mma_sync::Weights& weights, const W4a16Gemm& descriptor) {
  constexpr int kSums = 8;
  constexpr int kOrderedOperands = 48;
  weights.strip_registers = 4 + 4 + 12;  // words, operand, zeros and scales
  weights.strip_tile_registers = descriptor.activation_order ? kSums : kSums + 8;
  weights.more_registers = descriptor.activation_order ? kOrderedOperands : 0;
  weights.held_registers = held_registers(descriptor);
  // A warp has registers for two strips and the next stage: not of bytes, which take twice as many registers as
  // nibbles, and not with activation order, where the factors of a step take registers.
  weights.holds_two_strips = descriptor.bits == 4 && !descriptor.activation_order;
}

/// Blocks of few columns have a table of scales and zeros with a copy for each of the four lanes that look up different
/// groups: see templates/weight_format/w4_activation_order.cuh.
void add_table(gemm::mma_sync::Weights& weights, const W4a16Gemm& descriptor) {
  constexpr int kCopies = 4;
  weights.group_row_bytes = kCopies * descriptor.tile_n * (stores_zeros(descriptor) ? 3 : 2);
}

}  // namespace

gemm::mma_sync::Weights mma_sync_weights(const W4a16Gemm& descriptor) {
  gemm::mma_sync::Weights weights;
  weights.words.rows = gemm_lanes::kStageK / (has_words_by_n(descriptor) ? 1 : word_weights(descriptor));
  weights.words.row_bytes = gemm_lanes::kStageK * descriptor.tile_n * descriptor.bits / 8 / weights.words.rows;
  if (!descriptor.activation_order) {
    const int groups = stage_groups(descriptor);
    const int zero_bytes = descriptor.tile_n * descriptor.bits / 8;
    weights.scales = {groups, 2 * descriptor.tile_n, 2 * descriptor.tile_n, {}};
    if (stores_zeros(descriptor)) weights.zeros = {groups, zero_bytes, zero_bytes, {}};
  }
  weights.accesses = accesses_of(descriptor);
  weights.role = role_of(descriptor);
  weights.activations = activation_role(descriptor, false);
  if (is_narrow(descriptor)) {
    weights.times = narrow_times(descriptor);
  } else {
    weights.times = wide_times(descriptor);
  }
  if (has_words_by_n(descriptor)) weights.fragments = {"ldmatrix.x4", "ldmatrix.x4.trans"};
  weights.copy_bytes = descriptor.alignment;
  count_registers(weights, descriptor);
  if (descriptor.activation_order && is_narrow(descriptor)) add_table(weights, descriptor);
  // Stages of bytes are twice as large: a second block is worth more than a third stage.
  weights.fewest_stages = descriptor.bits == 8 ? 2 : 3;
  weights.most_merged_tiles = most_merged_tiles(descriptor);
  return weights;
}

}  // namespace cubit::ops::w4a16_gemm
