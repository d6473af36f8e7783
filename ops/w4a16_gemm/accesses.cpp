// Every shared-memory access of the W4A16 GEMM template and its format headers, as the lanes make it: the places are those
// of templates/w4a16_gemm_lanes.h, which the kernel itself uses. Layouts are searched by these accesses, and the proofs that
// `explain` prints are of these.
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using MaybeByte = std::optional<TileByte>;

constexpr int kStrips = gemm_lanes::kStrips;
constexpr int kSteps = gemm_lanes::kStageK / gemm_lanes::kStepK;

TileByte byte_at(gemm_lanes::Place place) { return {place.row, place.byte}; }

bool is_by_n(const Plan& plan) { return plan.descriptor.format == W4Format::awq; }

/// By all threads of the block: an instance is one warp's share of a round.
TileAccess copies(const char* name, const Plan& plan, int rows, int row_bytes, int copy_bytes) {
  const int warps = plan.warps;
  const int threads = plan.threads();
  const int pieces = row_bytes / copy_bytes;
  return {name, AccessKind::store, copy_bytes, rows * pieces / 32, [=](int instance, int lane) -> MaybeByte {
            const int thread = instance % warps * 32 + lane;
            return byte_at(gemm_lanes::copied_piece(instance / warps, thread, threads, pieces, copy_bytes));
          }};
}

/// A row by one warp.
TileAccess row_copies(const char* name, int rows, int copy_bytes) {
  return {name, AccessKind::store, copy_bytes, rows, [=](int row, int lane) -> MaybeByte {
            return TileByte{row, copy_bytes * lane};
          }};
}

}  // namespace

std::vector<TileAccess> word_accesses(const Plan& plan) {
  const int rows = plan.words.rows;
  TileAccess stores = copies("cp.async of words", plan, rows, plan.words.row_bytes, plan.copy_bytes);
  if (is_by_n(plan)) {
    return {stores,
            {"ldmatrix.x4.trans of words", AccessKind::ldmatrix, 16, kSteps * kStrips,
             [](int instance, int lane) -> MaybeByte {
               return byte_at(gemm_lanes::words_by_n(lane, instance % kStrips, instance / kStrips));
             }}};
  }
  if (plan.descriptor.bits == 8) {
    return {stores,
            {"loads of words", AccessKind::load, 16, 2 * kSteps * kStrips, [](int instance, int lane) -> MaybeByte {
               const int half = instance / kStrips % 2;
               const int step = instance / kStrips / 2;
               return byte_at(gemm_lanes::byte_words_by_k(lane, instance % kStrips, step, half));
             }}};
  }
  return {stores, {"loads of words", AccessKind::load, 16, kSteps * kStrips, [](int instance, int lane) -> MaybeByte {
                     return byte_at(gemm_lanes::words_by_k(lane, instance % kStrips, instance / kStrips));
                   }}};
}

std::vector<TileAccess> activation_accesses(const Plan& plan) {
  const int tiles = plan.descriptor.tile_m / 8;
  TileAccess stores = copies("cp.async of activations", plan, plan.descriptor.tile_m, gemm_lanes::kActivationBytes, 16);
  if (is_by_n(plan)) {
    return {stores,
            {"ldmatrix.x4 of activations", AccessKind::ldmatrix, 16, kSteps * tiles,
             [=](int instance, int lane) -> MaybeByte {
               return byte_at(gemm_lanes::activations_by_n(lane, instance % tiles, instance / tiles));
             }}};
  }
  return {stores,
          {"loads of activations", AccessKind::load, 16, kSteps * tiles, [=](int instance, int lane) -> MaybeByte {
             return byte_at(gemm_lanes::activations_by_k(lane, instance % tiles, instance / tiles));
           }}};
}

std::vector<TileAccess> scale_accesses(const Plan& plan) {
  const int groups = stage_groups(plan.descriptor);
  const bool by_n = is_by_n(plan);
  return {
      row_copies("cp.async of scales", groups, 16),
      {"loads of scales", AccessKind::load, by_n ? 16 : 8, groups * kStrips, [=](int instance, int lane) -> MaybeByte {
         const int strip = instance % kStrips;
         const int group = instance / kStrips;
         return byte_at(by_n ? gemm_lanes::scales_by_n(lane, strip, group)
                             : gemm_lanes::scales_by_k(lane, strip, group));
       }}};
}

std::vector<TileAccess> zero_accesses(const Plan& plan) {
  const int groups = stage_groups(plan.descriptor);
  const bool bytes = plan.descriptor.bits == 8;
  return {row_copies("cp.async of zeros", groups, plan.descriptor.bits),
          {"loads of zeros", AccessKind::load, 4, groups * kStrips, [=](int instance, int lane) -> MaybeByte {
             const int strip = instance % kStrips;
             const int group = instance / kStrips;
             return byte_at(bytes ? gemm_lanes::byte_zeros(lane, strip, group) : gemm_lanes::zeros(lane, strip, group));
           }}};
}

}  // namespace cubit::ops::w4a16_gemm
