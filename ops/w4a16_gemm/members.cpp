// The policy of sets: which tiles a set has on an architecture, and which member a launch takes.
//
// With the tiles of the lists below, launches of up to 64 rows of large layers take at most 4% longer on an H200 than
// with the best of all tiles, by the model. bench/member_study.cpp finds such lists; bench/notes/w4a16_gemm.md states
// what they lose.
#include "ops/w4a16_gemm/members.hpp"

#include <span>
#include <utility>

#include "ops/w4a16_gemm/description.hpp"
#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

using gemm::Tile;

/// On sm_90a, where a word has weights that are neighbours along k.
constexpr Tile kByK[] = {{8, 64},   {8, 96},   {8, 224},  {8, 256},  {16, 64},  {16, 96},   {16, 128},
                         {16, 224}, {16, 256}, {32, 256}, {64, 256}, {80, 256}, {144, 256}, {256, 256}};
/// On sm_90a for awq.
constexpr Tile kByN[] = {{8, 64},   {8, 256},  {16, 64},  {16, 96},   {16, 128}, {16, 256},
                         {32, 256}, {64, 256}, {80, 256}, {144, 256}, {256, 256}};
/// On sm_90a for gated functions.
constexpr Tile kGated[] = {{8, 64},   {8, 128},  {8, 256},  {16, 128},  {16, 256},
                           {32, 256}, {64, 256}, {80, 256}, {144, 256}, {256, 256}};
/// On sm_90a for dense weights.
constexpr Tile kDense[] = {{16, 256}, {32, 256}, {64, 256}, {80, 256}, {144, 256}, {256, 256}};
/// Tiles on other architectures. Groups of 16 and several layers have these tiles on sm_90a as well.
constexpr Tile kOfOthers[] = {{8, 32}, {8, 64}, {8, 256}, {16, 64}, {16, 256}, {32, 256}, {64, 256}};
constexpr Tile kOf8Bits[] = {{8, 32}, {8, 64}, {8, 256}, {16, 32}, {16, 64}, {16, 256}, {32, 256}};
/// On sm_90a with activation order.
constexpr Tile kOrdered[] = {{8, 32},   {8, 64},   {16, 32},   {16, 64},  {32, 256},
                             {64, 256}, {80, 256}, {144, 256}, {256, 256}};
/// Where nobody has timed the tiles. With batch_invariant=true these tiles give a row the same bits, because the slices
/// of k follow from n, k and tile_n.
constexpr Tile kUntimed[] = {{8, 256}, {16, 256}, {32, 256}, {64, 256}};

std::span<const Tile> timed_tiles(const W4a16Gemm& set, const codegen::Architecture& architecture) {
  if (set.is_dense()) return kDense;
  if (set.bits == 8) return kOf8Bits;
  if (architecture.wgmma && set.activation_order && set.layers == 1) return kOrdered;
  if (!architecture.wgmma || set.group_size == 16 || set.layers > 1) return kOfOthers;
  if (set.is_gated()) return kGated;
  return has_words_by_n(set) ? std::span<const Tile>(kByN) : std::span<const Tile>(kByK);
}

bool has_timed_fields(const W4a16Gemm& set) { return !set.batch_invariant; }

}  // namespace

const gemm::SetPolicy<W4a16Gemm> kSetPolicy = {.families = families,
                                               .check_rules = check_rules,
                                               .is_served = is_served,
                                               .tile_rows = kTileRows,
                                               .tile_columns = kTileColumns,
                                               .most_narrow_rows = 16,
                                               .is_timed = has_timed_fields,
                                               .timed_tiles = timed_tiles,
                                               .untimed_tiles = kUntimed};

std::vector<W4a16Gemm> members(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  return gemm::members(kSetPolicy, descriptor, architecture);
}

GemmChoice choice_of(const W4a16Gemm& set, const codegen::Architecture& architecture) {
  return choice_of(set, members(set, architecture), architecture);
}

GemmChoice choice_of(const W4a16Gemm& set, std::vector<W4a16Gemm> kernels, const codegen::Architecture& architecture) {
  return {kSetPolicy, kTranslation, set, std::move(kernels), architecture};
}

}  // namespace cubit::ops::w4a16_gemm
