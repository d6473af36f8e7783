// Every shared-memory access of the loop of the GQA decode templates and of their format headers, as the lanes make it:
// the places are those of templates/attention/gqa_decode_lanes.h, which the kernel itself uses. The plan's layout is searched by
// these accesses, and the proofs that `explain` prints are of these. (What a pair of blocks stores in each other,
// consecutive pieces of 16 bytes, is counted by tests/cover/gqa_slices_test.cpp.)
#include <algorithm>
#include <bit>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "templates/attention/gqa_decode_lanes.h"

namespace cubit::ops::gqa_decode {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using MaybeByte = std::optional<TileByte>;

TileByte byte_at(lanes::Place place) { return {place.row, place.byte}; }

using kv_cache::RowFormat;

int padded_header_bytes(const RowFormat& format) { return (format.header_bytes() + 15) / 16 * 16; }

/// Fetcher, of `rows` rows: keys and values, or either.
TileAccess copies(const RowFormat& format, const char* name, int copy_bytes, int rows) {
  const int row_bytes = format.row_bytes();
  const int header = format.header_bytes();
  const int gap = padded_header_bytes(format) - header;
  return {name, AccessKind::store, copy_bytes, lanes::count_copies(header, row_bytes, copy_bytes, rows),
          [=](int instance, int lane) -> MaybeByte {
            const auto [row, byte] = lanes::copied_piece(instance, lane, header, row_bytes, copy_bytes, rows);
            if (row >= rows) return std::nullopt;
            return TileByte{row, byte < header ? byte : byte + gap};
          }};
}

/// copy_pieces and copy_first_pieces, where boxes do not do: as many rows at a time as the copying warps have threads
/// for, of pages all.
TileAccess pieces(const Plan& plan) {
  const codegen::TileLayout& stage = plan.stage;
  const bool is_paged = plan.descriptor.cache == KvAddressing::paged;
  const int step_rows = is_paged ? stage.rows : lanes::bulk_rows(stage.row_bytes, plan.copy_warps * lanes::kWarpSize);
  const int step_pieces = step_rows * (stage.row_bytes / 16);
  const int of_step = (step_pieces + lanes::kWarpSize - 1) / lanes::kWarpSize;
  const int steps = (stage.rows + step_rows - 1) / step_rows;
  return {"cp.async of rows", AccessKind::store, 16, steps * of_step,
          [=, rows = stage.rows, row_bytes = stage.row_bytes](int instance, int lane) -> MaybeByte {
            const int piece = instance % of_step * lanes::kWarpSize + lane;
            if (piece >= step_pieces) return std::nullopt;
            lanes::Place at = lanes::bulk_piece(piece, row_bytes);
            at.row += instance / of_step * step_rows;
            if (at.row >= rows) return std::nullopt;
            return byte_at(at);
          }};
}

/// copy_unaligned_pieces: neighbouring lanes copy neighbouring pieces, one row of a KV head behind the other, as many
/// rows at a time as the copying warps have threads for. As for a span of one head: of several heads a step is whole
/// tokens, so shorter where rows at a time are no multiple of the heads, and lanes are neighbours all the same.
TileAccess unaligned_pieces(const Plan& plan) {
  const int bytes = plan.copy_bytes;
  const int pieces = plan.descriptor.row_bytes() / bytes;
  const int step = plan.copy_warps * lanes::kWarpSize / pieces * pieces;
  const int of_step = (step + lanes::kWarpSize - 1) / lanes::kWarpSize;
  const int steps = (plan.stage.size() / bytes + step - 1) / step;
  return {"cp.async of rows", AccessKind::store, bytes, steps * of_step,
          [=, size = plan.stage.size(), row_bytes = plan.stage.row_bytes](int instance, int lane) -> MaybeByte {
            const int piece = instance % of_step * lanes::kWarpSize + lane;
            const int at = (instance / of_step * step + piece) * bytes;
            if (piece >= step || at >= size) return std::nullopt;
            return TileByte{at / row_bytes, at % row_bytes};
          }};
}

/// place_in_own_row: each warp has its part of a stage's rows. The first's and the last's, for a plan is made at every
/// request; the others meet the banks in the same way, as tests/ops proves for all.
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

/// place_in_own_rows: the same of unaligned rows, those of every warp that is abreast in the first and the last such
/// warps. Matrices begin at the 16 bytes in which a warp's rows do.
TileAccess of_outer_columns(const TileAccess& access, const Plan& plan) {
  const int abreast = plan.warps_abreast();
  const RowFormat format = plan.formats().key;
  const int to_next = format.row_bytes() - (access.kind == AccessKind::ldmatrix ? format.header_bytes() : 0);
  const int last = plan.stage.rows - 16 * plan.tiles_per_stage;
  return {access.name, access.kind, access.bytes_per_lane, 2 * abreast * access.instances,
          [=, at = access.at, instances = access.instances](int instance, int lane) -> MaybeByte {
            MaybeByte byte = at(instance % instances, lane);
            if (!byte) return byte;
            const int warp = instance / instances;
            byte->row = byte->row % lanes::kTileRows + (warp < abreast ? 0 : last);
            byte->byte += warp % abreast * to_next;
            return byte;
          }};
}

/// RowsOfBytes::load_words, of keys or of values: two steps of 16 channels at a time, and the last alone where their
/// number is odd.
void add_byte_words(const RowFormat& format, const char* pairs, const char* last, int first_row,
                    std::vector<TileAccess>& accesses) {
  const int steps = format.head_dim / 16;
  accesses.push_back({pairs, AccessKind::ldmatrix, 16, steps / 2, [=](int pair, int lane) -> MaybeByte {
                        return byte_at(lanes::byte_words(lane, pair, first_row));
                      }});
  if (steps % 2 == 0) return;
  accesses.push_back({last, AccessKind::ldmatrix, 16, 1, [=](int, int lane) -> MaybeByte {
                        if (lane >= 16) return std::nullopt;
                        return byte_at(lanes::byte_last_words(lane, steps - 1, first_row));
                      }});
}

/// Two matrices of 16 bytes at a time from byte `start` on, and the last alone where their number is odd.
void add_int4_matrices(int matrices, int start, const char* pairs, const char* last, int first_row,
                       std::vector<TileAccess>& accesses) {
  accesses.push_back({pairs, AccessKind::ldmatrix, 16, matrices / 2, [=](int instance, int lane) -> MaybeByte {
                        return byte_at(lanes::int4_words(lane, 2 * instance, start, first_row));
                      }});
  if (matrices % 2 == 0) return;
  accesses.push_back({last, AccessKind::ldmatrix, 16, 1, [=](int, int lane) -> MaybeByte {
                        if (lane >= 16) return std::nullopt;
                        return byte_at(lanes::int4_last_words(lane, matrices - 1, start, first_row));
                      }});
}

/// Of 32 channels each.
void add_int4_words(const RowFormat& format, const char* pairs, const char* last, int first_row,
                    std::vector<TileAccess>& accesses) {
  add_int4_matrices(format.head_dim / 32, padded_header_bytes(format), pairs, last, first_row, accesses);
}

/// ldmatrix.x2: 16 row addresses, from the first 16 lanes.
TileAccess int4_header_matrices(const RowFormat& format, const char* name, int first_row) {
  return {name, AccessKind::ldmatrix, 16, padded_header_bytes(format) / 16, [=](int chunk, int lane) -> MaybeByte {
            if (lane >= 16) return std::nullopt;
            return byte_at(lanes::int4_header_matrices(lane, chunk, first_row));
          }};
}

/// Of several head tiles: scales of values as their products take them.
TileAccess int4_token_headers(const RowFormat& format, const char* name, int first_row) {
  const int pairs = std::min(format.groups, 4);
  const int pieces = format.groups / pairs;
  return {name, AccessKind::load, 4 * pairs, 4 * pieces, [=](int instance, int lane) -> MaybeByte {
            return byte_at(lanes::int4_token_pairs(lane, instance / pieces, pairs * (instance % pieces), first_row));
          }};
}

TileAccess int4_headers(const RowFormat& format, const char* name, int first_row) {
  const int pairs = std::min(format.groups, 4);
  const int pieces = format.groups / pairs;
  return {name, AccessKind::load, 4 * pairs, 2 * pieces, [=](int instance, int lane) -> MaybeByte {
            return byte_at(lanes::int4_header_pairs(lane, instance / pieces, pairs * (instance % pieces), first_row));
          }};
}

/// Int4RowsLoads::clear_padding, of so many rows; nothing where headers need none.
void add_padding(const RowFormat& format, int rows, std::vector<TileAccess>& accesses) {
  const int header = format.header_bytes();
  const int padding_words = (padded_header_bytes(format) - header) / 4;
  if (padding_words == 0) return;
  accesses.push_back({"zeros beside headers", AccessKind::store, 4, rows / 8, [=](int instance, int lane) -> MaybeByte {
                        if (lane / 8 >= padding_words) return std::nullopt;
                        return byte_at(lanes::int4_padding(lane, 8 * instance, header));
                      }});
}

/// What scores() of the role Keys reads.
void add_keys(const RowFormat& format, std::vector<TileAccess>& accesses) {
  if (format.kv == KvFormat::int4_rows) {
    accesses.push_back(int4_header_matrices(format, "ldmatrix.x2 of key headers", 0));
    accesses.push_back(int4_headers(format, "loads of key scales", 0));
    add_int4_words(format, "ldmatrix.x4 of key words", "ldmatrix.x2 of the last key words", 0, accesses);
  } else if (format.has_scales()) {
    add_byte_words(format, "ldmatrix.x4 of keys", "ldmatrix.x2 of the last keys", 0, accesses);
  } else {
    accesses.push_back({"ldmatrix.x4 of keys", AccessKind::ldmatrix, 16, format.head_dim / 16,
                        [](int step, int lane) -> MaybeByte { return byte_at(lanes::rows16_keys(lane, step)); }});
  }
}

/// What load_value_scales() and accumulate() of the role Values read.
void add_values(const RowFormat& format, int head_tiles, std::vector<TileAccess>& accesses) {
  constexpr int kFirst = lanes::kTileRows;
  if (format.kv == KvFormat::int4_rows) {
    accesses.push_back(int4_header_matrices(format, "ldmatrix.x2.trans of value headers", kFirst));
    const char* const scales = "loads of value scales";
    accesses.push_back(head_tiles > 1 ? int4_token_headers(format, scales, kFirst)
                                      : int4_headers(format, scales, kFirst));
    add_int4_words(format, "ldmatrix.x4.trans of value words", "ldmatrix.x2.trans of the last value words", kFirst,
                   accesses);
  } else if (format.has_scales()) {
    add_byte_words(format, "ldmatrix.x4.trans of values", "ldmatrix.x2.trans of the last values", kFirst, accesses);
  } else {
    accesses.push_back({"ldmatrix.x4.trans of values", AccessKind::ldmatrix, 16, format.head_dim / 16,
                        [](int step, int lane) -> MaybeByte { return byte_at(lanes::rows16_values(lane, step)); }});
  }
}

/// Int4RowsAlignment::load and load_headers: of unaligned rows a matrix more than words have.
void add_unaligned_rows(const RowFormat& format, std::vector<TileAccess>& accesses) {
  constexpr int kFirst = lanes::kTileRows;
  const int matrices = format.head_dim / 32 + 1;
  add_int4_matrices(matrices, 0, "ldmatrix.x4 of key words", "ldmatrix.x2 of the last key words", 0, accesses);
  accesses.push_back(int4_headers(format, "loads of key scales", 0));
  add_int4_matrices(matrices, 0, "ldmatrix.x4.trans of value words", "ldmatrix.x2.trans of the last value words",
                    kFirst, accesses);
  accesses.push_back(int4_headers(format, "loads of value scales", kFirst));
}

/// place_of_value: the rows of values in a layout of their own.
TileAccess of_values_alone(const TileAccess& access) {
  return {access.name, access.kind, access.bytes_per_lane, access.instances,
          [at = access.at](int instance, int lane) -> MaybeByte {
            MaybeByte byte = at(instance, lane);
            if (byte) byte->row -= lanes::kTileRows;
            return byte;
          }};
}

const char* copies_of(const Plan& plan) { return plan.family == "sm75" ? "stores of rows" : "cp.async of rows"; }

}  // namespace

int stage_row_bytes(const kv_cache::RowFormat& format) {
  return format.row_bytes() - format.header_bytes() + padded_header_bytes(format);
}

std::vector<TileAccess> stage_accesses(const Plan& plan) {
  const kv_cache::CacheFormats formats = plan.formats();
  const int rows = formats.are_alike() ? 2 * lanes::kTileRows : lanes::kTileRows;
  std::vector<TileAccess> accesses;
  if (plan.heads_are_rows) return {pieces(plan)};  // tensor cores read the rest
  if (plan.copies_unaligned_rows()) {
    add_unaligned_rows(formats.key, accesses);
    for (TileAccess& access : accesses) access = of_outer_columns(access, plan);
    accesses.insert(accesses.begin(), {unaligned_pieces(plan), pieces(plan)});
    return accesses;
  }
  add_padding(formats.key, rows, accesses);
  add_keys(formats.key, accesses);
  if (formats.are_alike()) add_values(formats.value, plan.head_tiles(), accesses);
  if (plan.family == "sm90") {
    for (TileAccess& access : accesses) access = of_outer_warps(access, plan.row_warps(), formats.key.row_bytes());
  }
  // Boxes are written in whole rows and meet no banks that lanes would share.
  accesses.insert(accesses.begin(),
                  plan.family == "sm90" ? pieces(plan) : copies(formats.key, copies_of(plan), plan.copy_bytes, rows));
  return accesses;
}

std::vector<TileAccess> value_stage_accesses(const Plan& plan) {
  const kv_cache::CacheFormats formats = plan.formats();
  if (formats.are_alike()) return {};
  std::vector<TileAccess> accesses;
  add_values(formats.value, plan.head_tiles(), accesses);
  for (TileAccess& access : accesses) access = of_values_alone(access);
  std::vector<TileAccess> writes = {copies(formats.value, copies_of(plan), plan.copy_bytes, lanes::kTileRows)};
  add_padding(formats.value, lanes::kTileRows, writes);
  accesses.insert(accesses.begin(), writes.begin(), writes.end());
  return accesses;
}

int count_copies(const Plan& plan) {
  return stage_accesses(plan).front().instances +
         (plan.formats().are_alike() ? 0 : value_stage_accesses(plan).front().instances);
}

int slot_period(const Plan& plan) {
  std::vector<std::optional<int>> slots;  // of every copy those of all lanes
  const auto add = [&](const TileAccess& copies, const codegen::TileLayout& stage, int first_byte) {
    for (int i = 0; i < copies.instances; ++i) {
      for (int lane = 0; lane < lanes::kWarpSize; ++lane) {
        const MaybeByte byte = copies.at(i, lane);
        slots.push_back(byte ? std::optional(first_byte + stage.address(*byte)) : std::nullopt);
      }
    }
  };
  add(stage_accesses(plan).front(), plan.stage, 0);
  if (!plan.formats().are_alike()) add(value_stage_accesses(plan).front(), plan.value_stage, plan.stage.size());
  const int copies = static_cast<int>(slots.size()) / lanes::kWarpSize;
  const auto repeats = [&](int i, int period) {
    const auto* const slot = &slots[static_cast<std::size_t>(i) * lanes::kWarpSize];
    const auto* const earlier = &slots[static_cast<std::size_t>(i % period) * lanes::kWarpSize];
    for (int lane = 1; lane < lanes::kWarpSize; ++lane) {
      if (slot[lane] && (!earlier[lane] || *slot[lane] - *slot[0] != *earlier[lane] - *earlier[0])) return false;
    }
    return true;
  };
  for (int period = 1; period < copies; ++period) {
    bool all = true;
    for (int i = period; i < copies && all; ++i) all = repeats(i, period);
    if (all) return period;
  }
  return copies;
}

int Plan::flush_stages() const { return std::max(1, 48 * 1024 / stage_bytes()); }

int Plan::gap_stages() const { return std::max(1, 120 * 1024 / stage_bytes()); }

int Plan::results_at(int stage_count) const { return family == "sm90" ? (ring_bytes(stage_count) + 15) / 16 * 16 : 0; }

int Plan::barriers_at(int stage_count) const {
  const int end = std::max(ring_bytes(stage_count) + query_bytes(), results_at(stage_count) + merge_bytes(*this));
  return (end + 15) / 16 * 16;
}

/// The formats' kQueryWords, which are a multiple of 4.
static int query_words(const Plan& plan) {
  const RowFormat keys = plan.formats().key;
  const auto padded = [](int words) { return (words + 3) / 4 * 4; };
  constexpr int kFactors = 2;
  if (keys.kv == KvFormat::int4_rows)
    return padded(keys.head_dim / 8 + 2 * (padded_header_bytes(keys) / 16) + kFactors);
  if (keys.has_scales()) return padded(keys.head_dim / 8 + kFactors);
  const int terms = keys.kv == KvFormat::bf16 && plan.descriptor.query == Element::fp16 ? 2 : 1;
  return padded(terms * padded(keys.head_dim / 8) + kFactors);
}

int Plan::query_bytes() const { return query_is_shared ? head_tiles() * query_words(*this) * 4 * lanes::kWarpSize : 0; }

std::vector<Tile> query_tiles(const Plan& plan) {
  if (!plan.query_is_shared) return {};
  constexpr int kPiece = 16 * lanes::kWarpSize;
  const int pieces = plan.query_bytes() / kPiece;
  const auto at = [](int instance, int lane) -> MaybeByte { return TileByte{instance, 16 * lane}; };
  return {{"query operands",
           {pieces, kPiece, kPiece, {}},
           {{"stores of queries", AccessKind::store, 16, pieces, at},
            {"loads of queries", AccessKind::load, 16, pieces, at}}}};
}

}  // namespace cubit::ops::gqa_decode
