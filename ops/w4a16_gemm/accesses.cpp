// Every shared-memory access of the loop of the W4A16 GEMM templates and of their format headers, as the lanes make it:
// the places are those of templates/gemm/w4a16_gemm_lanes.h, which the kernel itself uses. Layouts are searched by these
// accesses, and the proofs that `explain` prints are of these.
#include <fmt/format.h>

#include <algorithm>

#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using MaybeByte = std::optional<TileByte>;

constexpr int kSteps = gemm_lanes::kStageK / gemm_lanes::kStepK;

TileByte byte_at(gemm_lanes::Place place) { return {place.row, place.byte}; }

bool is_by_n(const Plan& plan) { return plan.descriptor.format == W4Format::awq; }

/// As the template's comments name them.
std::string copies_name(const Plan& plan, const char* tensor) {
  return fmt::format("{} of {}", plan.family == "sm75" ? "stores" : "cp.async", tensor);
}

/// By all threads of the block: an instance is one warp's share of a round.
TileAccess copies(const char* tensor, const Plan& plan, int rows, int row_bytes, int copy_bytes) {
  const int warps = plan.warps;
  const int threads = 32 * warps;  // of a team
  const int pieces = row_bytes / copy_bytes;
  return {copies_name(plan, tensor), AccessKind::store, copy_bytes, rows * pieces / 32,
          [=](int instance, int lane) -> MaybeByte {
            const int thread = instance % warps * 32 + lane;
            return byte_at(gemm_lanes::copied_vector(instance / warps, thread, threads, pieces, copy_bytes));
          }};
}

/// Rows of scales or zeros of 8 columns per lane: of 256 columns one by each warp, of fewer columns several by one, in
/// family sm90 one after another.
TileAccess row_copies(const char* tensor, const Plan& plan, int rows, int copy_bytes) {
  const int lanes = plan.descriptor.tile_n / 8;
  const int at_once = has_copied_teams(plan) ? 1 : 32 / lanes;
  return {copies_name(plan, tensor), AccessKind::store, copy_bytes, (rows + at_once - 1) / at_once,
          [=](int instance, int lane) -> MaybeByte {
            const int row = instance * at_once + lane / lanes;
            if (row >= rows || lane >= at_once * lanes) return std::nullopt;
            return TileByte{row, copy_bytes * (lane % lanes)};
          }};
}

}  // namespace

namespace {

TileAccess ldmatrix_of_words(int strips) {
  return {"ldmatrix.x4.trans of words", AccessKind::ldmatrix, 16, kSteps * strips,
          [=](int instance, int lane) -> MaybeByte {
            return byte_at(gemm_lanes::words_by_n(lane, instance % strips, instance / strips));
          }};
}

TileAccess ldmatrix_of_activations(int tiles) {
  return {"ldmatrix.x4 of activations", AccessKind::ldmatrix, 16, kSteps * tiles,
          [=](int instance, int lane) -> MaybeByte {
            return byte_at(gemm_lanes::activations_by_n(lane, instance % tiles, instance / tiles));
          }};
}

/// Family sm90, whose copies are those of tensor maps.
std::vector<TileAccess> accesses_of_boxes(const Plan& plan) {
  const int strips = plan.strips();
  if (is_by_n(plan)) return {ldmatrix_of_words(strips)};
  const bool spread = spreads_words(plan.descriptor);
  return {{"loads of words", AccessKind::load, 16, kSteps * strips, [=](int instance, int lane) -> MaybeByte {
             return byte_at(gemm_lanes::copied_words_by_k(lane, instance % strips, instance / strips, spread));
           }}};
}

/// Likewise; the tensor cores are no lanes.
std::vector<TileAccess> accesses_of_rows(const Plan& plan) {
  const int tiles = plan.descriptor.tile_m / 8;
  if (is_by_n(plan) && has_copied_teams(plan)) return {ldmatrix_of_activations(tiles)};
  if (is_by_n(plan)) return {};
  if (has_copied_teams(plan)) {
    const bool spread = spreads_words(plan.descriptor);
    return {{"loads of activations", AccessKind::load, 16, kSteps * tiles, [=](int instance, int lane) -> MaybeByte {
               return byte_at(gemm_lanes::copied_activations_by_k(lane, instance % tiles, instance / tiles, spread));
             }}};
  }
  constexpr int kPieces = gemm_lanes::kActivationBytes / 16;
  const int tile_m = plan.descriptor.tile_m;
  const int warps = std::max(1, 2 * tile_m / 32);
  const auto at = [=](int instance, int lane) -> MaybeByte {
    const int item = instance % warps * 32 + lane;
    if (item >= 2 * tile_m) return std::nullopt;
    return TileByte{item % tile_m, item / tile_m * 128 + instance / warps * 16};
  };
  return {{"loads of activations", AccessKind::load, 16, warps * kPieces / 2, at},
          {"stores of activations", AccessKind::store, 16, warps * kPieces / 2, at}};
}

}  // namespace

std::vector<TileAccess> word_accesses(const Plan& plan) {
  const int strips = plan.strips();
  if (plan.family == "sm90") return accesses_of_boxes(plan);
  const int rows = plan.words.rows;
  TileAccess stores = copies("words", plan, rows, plan.words.row_bytes, plan.copy_bytes);
  if (is_by_n(plan)) {
    return {stores, ldmatrix_of_words(strips)};
  }
  if (plan.descriptor.bits == 8) {
    return {stores,
            {"loads of words", AccessKind::load, 16, 2 * kSteps * strips, [=](int instance, int lane) -> MaybeByte {
               const int half = instance / strips % 2;
               const int step = instance / strips / 2;
               return byte_at(gemm_lanes::byte_words_by_k(lane, instance % strips, step, half));
             }}};
  }
  return {stores, {"loads of words", AccessKind::load, 16, kSteps * strips, [=](int instance, int lane) -> MaybeByte {
                     return byte_at(gemm_lanes::words_by_k(lane, instance % strips, instance / strips));
                   }}};
}

std::vector<TileAccess> activation_accesses(const Plan& plan) {
  if (plan.family == "sm90") return accesses_of_rows(plan);
  const int tiles = plan.descriptor.tile_m / 8;
  TileAccess stores = copies("activations", plan, plan.descriptor.tile_m, gemm_lanes::kActivationBytes, 16);
  if (is_by_n(plan)) {
    return {stores, ldmatrix_of_activations(tiles)};
  }
  return {stores,
          {"loads of activations", AccessKind::load, 16, kSteps * tiles, [=](int instance, int lane) -> MaybeByte {
             return byte_at(gemm_lanes::activations_by_k(lane, instance % tiles, instance / tiles));
           }}};
}

std::vector<TileAccess> scale_accesses(const Plan& plan) {
  const int strips = plan.strips();
  const int groups = stage_groups(plan.descriptor);
  const bool by_n = is_by_n(plan);
  const TileAccess loads = {"loads of scales", AccessKind::load, by_n ? 16 : 8, groups * strips,
                            [=](int instance, int lane) -> MaybeByte {
                              const int strip = instance % strips;
                              const int group = instance / strips;
                              return byte_at(by_n ? gemm_lanes::scales_by_n(lane, strip, group)
                                                  : gemm_lanes::scales_by_k(lane, strip, group));
                            }};
  if (plan.family == "sm90") return {loads};
  return {row_copies("scales", plan, groups, 16), loads};
}

std::vector<TileAccess> zero_accesses(const Plan& plan) {
  const int strips = plan.strips();
  const int groups = stage_groups(plan.descriptor);
  const bool bytes = plan.descriptor.bits == 8;
  return {row_copies("zeros", plan, groups, plan.descriptor.bits),
          {"loads of zeros", AccessKind::load, 4, groups * strips, [=](int instance, int lane) -> MaybeByte {
             const int strip = instance % strips;
             const int group = instance / strips;
             return byte_at(bytes ? gemm_lanes::byte_zeros(lane, strip, group) : gemm_lanes::zeros(lane, strip, group));
           }}};
}

}  // namespace cubit::ops::w4a16_gemm
