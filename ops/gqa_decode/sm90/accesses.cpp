// Shared-memory accesses of kernel family sm90: vector copies of rows, reads of interleaved rows, and the merge.
//
// Boxes are written in whole rows and meet no banks that lanes would share, so only vector copies have an access. What
// a block of a cluster stores in the other block, consecutive vectors of 16 bytes, is counted by
// tests/cover/gqa_slices_test.cpp.
#include "ops/gqa_decode/sm90/sm90.hpp"

namespace cubit::ops::gqa_decode::sm90 {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using kv_cache::RowFormat;

constexpr const char* kCopies = "cp.async of rows";

/// copy_pieces and copy_first_pieces, for rows that no box describes. A step copies as many rows as the producer warps
/// have threads for; of a paged cache, all rows.
TileAccess vector_copies(const Plan& plan) {
  const codegen::TileLayout& stage = plan.stage;
  const bool is_paged = plan.descriptor.cache == KvAddressing::paged;
  const int step_rows =
      is_paged ? stage.rows : lanes::bulk_rows(stage.row_bytes, plan.producer_warps * lanes::kWarpSize);
  const int step_vectors = step_rows * (stage.row_bytes / 16);
  const int of_step = (step_vectors + lanes::kWarpSize - 1) / lanes::kWarpSize;
  const int steps = (stage.rows + step_rows - 1) / step_rows;
  return {kCopies, AccessKind::store, 16, steps * of_step,
          [=, rows = stage.rows, row_bytes = stage.row_bytes](int instance, int lane) -> MaybeByte {
            const int vector = instance % of_step * lanes::kWarpSize + lane;
            if (vector >= step_vectors) return std::nullopt;
            lanes::Place at = lanes::bulk_piece(vector, row_bytes);
            at.row += instance / of_step * step_rows;
            if (at.row >= rows) return std::nullopt;
            return byte_at(at);
          }};
}

/// copy_unaligned_pieces: neighbouring lanes copy neighbouring vectors, one row of a KV head after another. A step
/// copies as many rows as the producer warps have threads for. This is the access for a span of one KV head. A step of
/// several heads is whole tokens, so it is shorter if its rows are no multiple of the heads; lanes are neighbours all
/// the same.
TileAccess unaligned_vector_copies(const Plan& plan) {
  const int bytes = plan.copy_bytes;
  const int vectors = plan.descriptor.row_bytes() / bytes;
  const int step = plan.producer_warps * lanes::kWarpSize / vectors * vectors;
  const int of_step = (step + lanes::kWarpSize - 1) / lanes::kWarpSize;
  const int steps = (plan.stage.size() / bytes + step - 1) / step;
  return {kCopies, AccessKind::store, bytes, steps * of_step,
          [=, size = plan.stage.size(), row_bytes = plan.stage.row_bytes](int instance, int lane) -> MaybeByte {
            const int vector = instance % of_step * lanes::kWarpSize + lane;
            const int at = (instance / of_step * step + vector) * bytes;
            if (vector >= step || at >= size) return std::nullopt;
            return TileByte{at / row_bytes, at % row_bytes};
          }};
}

/// place_in_own_row: each warp has its part of the stage's rows. The access has the parts of the first and the last
/// warp, because a plan is made at every request. The other warps meet the banks in the same way, as tests/ops proves
/// for all.
TileAccess of_outer_warps(const TileAccess& access, int warps, int row_bytes) {
  const int last = (warps - 1) * row_bytes;
  return {access.name, access.kind, access.bytes_per_lane, 2 * access.instances,
          [at = access.at, instances = access.instances, last](int instance, int lane) -> MaybeByte {
            MaybeByte byte = at(instance % instances, lane);
            if (!byte) return byte;
            byte->row %= lanes::kTileRows;  // values lie as keys do
            if (instance >= instances) byte->byte += last;
            return byte;
          }};
}

/// place_in_own_rows: the same of unaligned rows, for every interleaved warp among the first and the last such warps.
/// Matrices begin at the 16 bytes in which a warp's rows begin.
TileAccess of_outer_interleaved(const TileAccess& access, const Plan& plan) {
  const int interleaved = plan.interleaved_warps();
  const RowFormat format = plan.formats().key;
  const int to_next = format.row_bytes() - (access.kind == AccessKind::ldmatrix ? format.header_bytes() : 0);
  const int last = plan.stage.rows - 16 * plan.tiles_per_stage;
  return {access.name, access.kind, access.bytes_per_lane, 2 * interleaved * access.instances,
          [=, at = access.at, instances = access.instances](int instance, int lane) -> MaybeByte {
            MaybeByte byte = at(instance % instances, lane);
            if (!byte) return byte;
            const int warp = instance / instances;
            byte->row = byte->row % lanes::kTileRows + (warp < interleaved ? 0 : last);
            byte->byte += warp % interleaved * to_next;
            return byte;
          }};
}

/// Int4RowsAlignment::load and load_headers: unaligned rows take one matrix more than their words do.
void add_unaligned_reads(const RowFormat& format, std::vector<TileAccess>& accesses) {
  constexpr int kFirst = lanes::kTileRows;
  const int matrices = format.head_dim / 32 + 1;
  add_int4_matrices(matrices, 0, "ldmatrix.x4 of key words", "ldmatrix.x2 of the last key words", 0, accesses);
  accesses.push_back(int4_header_loads(format, "loads of key scales", 0));
  add_int4_matrices(matrices, 0, "ldmatrix.x4.trans of value words", "ldmatrix.x2.trans of the last value words",
                    kFirst, accesses);
  accesses.push_back(int4_header_loads(format, "loads of value scales", kFirst));
}

/// Rows16ByHeads::store: two neighbouring channels of a query row.
TileAccess output_stores_by_heads(const Plan& plan) {
  const int eights = plan.formats().value.head_dim / 8;
  return {kOutputStores, AccessKind::store, 8, plan.head_tiles() * eights,
          [=, heads = plan.heads_per_warp](int instance, int lane) -> MaybeByte {
            const int head = lanes::row_head(lane, instance / eights);
            if (head >= heads) return std::nullopt;
            return TileByte{head, 4 * lanes::row_channel(lane, instance % eights)};
          }};
}

/// Int4Rows::store of unaligned rows: the interleaved warps have the channels in different orders.
TileAccess unaligned_output_stores(const Plan& plan) {
  const RowFormat values = plan.formats().value;
  constexpr int kElements = 2;
  const int steps = values.head_dim / 32;
  const int of_warp = plan.head_tiles() * kElements * steps;
  return {kOutputStores, AccessKind::store, 16, plan.interleaved_warps() * of_warp,
          [=, heads = plan.heads_per_warp](int instance, int lane) -> MaybeByte {
            const int words_before = (instance / of_warp + 1) * values.groups;
            const int tile = instance % of_warp / steps / kElements;
            const int head = lanes::accumulator_head(lane, tile, instance / steps % kElements & 1);
            if (head >= heads) return std::nullopt;
            return TileByte{head, 4 * lanes::int4_channel_between(lane, instance % steps, words_before)};
          }};
}

TileAccess sum_stores_by_heads(const Plan& plan) {
  return {kSumStores, AccessKind::store, 8, 2, [heads = plan.heads_per_warp](int instance, int lane) -> MaybeByte {
            const int head = lanes::row_head(lane, instance);
            if (lane % 4 != 0 || head >= heads) return std::nullopt;
            return TileByte{head, 0};
          }};
}

}  // namespace

std::vector<TileAccess> stage_accesses(const Plan& plan) {
  if (plan.heads_are_m) return {vector_copies(plan)};  // tensor cores read the stage
  const RowFormat format = plan.formats().key;
  std::vector<TileAccess> accesses;
  if (plan.copies_unaligned_rows()) {
    add_unaligned_reads(format, accesses);
    for (TileAccess& access : accesses) access = of_outer_interleaved(access, plan);
    accesses.insert(accesses.begin(), {unaligned_vector_copies(plan), vector_copies(plan)});
    return accesses;
  }
  add_padding_stores(format, 2 * lanes::kTileRows, accesses);
  add_key_reads(format, accesses);
  add_value_reads(format, plan.head_tiles(), accesses);
  for (TileAccess& access : accesses) access = of_outer_warps(access, plan.token_warps(), format.row_bytes());
  accesses.insert(accesses.begin(), vector_copies(plan));
  return accesses;
}

std::vector<Tile> tiles_of_merge(const Plan& plan) {
  return merge_tiles(plan, plan.token_warps(), merge_pitch(plan, plan.heads_are_m),
                     plan.heads_are_m               ? output_stores_by_heads(plan)
                     : plan.copies_unaligned_rows() ? unaligned_output_stores(plan)
                                                    : output_stores(plan),
                     plan.heads_are_m ? sum_stores_by_heads(plan) : sum_stores(plan));
}

}  // namespace cubit::ops::gqa_decode::sm90
