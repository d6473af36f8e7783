// Every shared-memory access of the GQA decode templates and their format headers, as the lanes make it: the places are
// those of templates/gqa_decode_lanes.h, which the kernel itself uses. The plan's layout is searched by these accesses, and
// the proofs that `explain` prints are of these.
#include <algorithm>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "templates/gqa_decode_lanes.h"

namespace cubit::ops::gqa_decode {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using MaybeByte = std::optional<TileByte>;

TileByte byte_at(lanes::Place place) { return {place.row, place.byte}; }

int header_bytes(const GqaDecode& descriptor) { return kv_cache::format_of(descriptor).header_bytes(); }

int padded_header_bytes(const GqaDecode& descriptor) { return (header_bytes(descriptor) + 15) / 16 * 16; }

/// Fetcher.
TileAccess copies(const GqaDecode& descriptor, const char* name, int copy_bytes) {
  const int row_bytes = descriptor.row_bytes();
  const int header = header_bytes(descriptor);
  const int gap = padded_header_bytes(descriptor) - header;
  return {name, AccessKind::store, copy_bytes, row_bytes / copy_bytes, [=](int instance, int lane) -> MaybeByte {
            const auto [row, byte] = lanes::copied_piece(instance, lane, header, row_bytes, copy_bytes);
            return TileByte{row, byte < header ? byte : byte + gap};
          }};
}

/// copy_pieces, where boxes do not do.
TileAccess pieces(const codegen::TileLayout& stage) {
  const int instances = stage.rows * stage.row_bytes / 16 / lanes::kWarpSize;
  return {"cp.async of rows", AccessKind::store, 16, instances, [=](int instance, int lane) -> MaybeByte {
            return byte_at(lanes::bulk_piece(instance * lanes::kWarpSize + lane, stage.row_bytes));
          }};
}

/// place_in_own_row: each warp has its part of a stage's rows. The first's and the last's, for a plan is made at every request;
/// the others meet the banks in the same way, as tests/ops proves for all.
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

/// Rows16::scores and Rows16::accumulate.
void add_rows16(const GqaDecode& descriptor, std::vector<TileAccess>& accesses) {
  const int steps = descriptor.head_dim / 16;
  accesses.push_back({"ldmatrix.x4 of keys", AccessKind::ldmatrix, 16, steps,
                      [](int step, int lane) -> MaybeByte { return byte_at(lanes::rows16_keys(lane, step)); }});
  accesses.push_back({"ldmatrix.x4.trans of values", AccessKind::ldmatrix, 16, steps,
                      [](int step, int lane) -> MaybeByte { return byte_at(lanes::rows16_values(lane, step)); }});
}

/// RowsOfBytes::load_words, of keys or of values: two steps of 16 channels at a time, and the last alone where their number is
/// odd.
void add_byte_words(const GqaDecode& descriptor, const char* pairs, const char* last, int first_row,
                    std::vector<TileAccess>& accesses) {
  const int steps = descriptor.head_dim / 16;
  accesses.push_back({pairs, AccessKind::ldmatrix, 16, steps / 2, [=](int pair, int lane) -> MaybeByte {
                        return byte_at(lanes::byte_words(lane, pair, first_row));
                      }});
  if (steps % 2 == 0) return;
  accesses.push_back({last, AccessKind::ldmatrix, 16, 1, [=](int, int lane) -> MaybeByte {
                        if (lane >= 16) return std::nullopt;
                        return byte_at(lanes::byte_last_words(lane, steps - 1, first_row));
                      }});
}

/// RowsOfBytes::scores and RowsOfBytes::accumulate.
void add_bytes(const GqaDecode& descriptor, std::vector<TileAccess>& accesses) {
  add_byte_words(descriptor, "ldmatrix.x4 of keys", "ldmatrix.x2 of the last keys", 0, accesses);
  add_byte_words(descriptor, "ldmatrix.x4.trans of values", "ldmatrix.x2.trans of the last values", lanes::kTileRows,
                 accesses);
}

/// Two matrices of 32 channels at a time, and the last alone where their number is odd.
void add_int4_words(const GqaDecode& descriptor, const char* pairs, const char* last, int first_row,
                    std::vector<TileAccess>& accesses) {
  const int start = padded_header_bytes(descriptor);
  const int matrices = descriptor.head_dim / 32;
  accesses.push_back({pairs, AccessKind::ldmatrix, 16, matrices / 2, [=](int instance, int lane) -> MaybeByte {
                        return byte_at(lanes::int4_words(lane, 2 * instance, start, first_row));
                      }});
  if (matrices % 2 == 0) return;
  accesses.push_back({last, AccessKind::ldmatrix, 16, 1, [=](int, int lane) -> MaybeByte {
                        if (lane >= 16) return std::nullopt;
                        return byte_at(lanes::int4_last_words(lane, matrices - 1, start, first_row));
                      }});
}

/// ldmatrix.x2: 16 row addresses, from the first 16 lanes.
TileAccess int4_header_matrices(const GqaDecode& descriptor, const char* name, int first_row) {
  return {name, AccessKind::ldmatrix, 16, padded_header_bytes(descriptor) / 16, [=](int chunk, int lane) -> MaybeByte {
            if (lane >= 16) return std::nullopt;
            return byte_at(lanes::int4_header_matrices(lane, chunk, first_row));
          }};
}

TileAccess int4_headers(const GqaDecode& descriptor, const char* name, int first_row) {
  const int pairs = std::min(descriptor.groups, 4);
  const int pieces = descriptor.groups / pairs;
  return {name, AccessKind::load, 4 * pairs, 2 * pieces, [=](int instance, int lane) -> MaybeByte {
            return byte_at(lanes::int4_header_pairs(lane, instance / pieces, pairs * (instance % pieces), first_row));
          }};
}

/// Int4Rows: clear_padding, scores, accumulate.
void add_int4_rows(const GqaDecode& descriptor, std::vector<TileAccess>& accesses) {
  const int header = header_bytes(descriptor);
  const int padding_words = (padded_header_bytes(descriptor) - header) / 4;
  if (padding_words > 0) {
    accesses.push_back({"zeros beside headers", AccessKind::store, 4, 4, [=](int instance, int lane) -> MaybeByte {
                          if (lane / 8 >= padding_words) return std::nullopt;
                          return byte_at(lanes::int4_padding(lane, 8 * instance, header));
                        }});
  }
  accesses.push_back(int4_header_matrices(descriptor, "ldmatrix.x2 of key headers", 0));
  accesses.push_back(int4_headers(descriptor, "loads of key scales", 0));
  add_int4_words(descriptor, "ldmatrix.x4 of key words", "ldmatrix.x2 of the last key words", 0, accesses);
  accesses.push_back(int4_header_matrices(descriptor, "ldmatrix.x2.trans of value headers", lanes::kTileRows));
  accesses.push_back(int4_headers(descriptor, "loads of value scales", lanes::kTileRows));
  add_int4_words(descriptor, "ldmatrix.x4.trans of value words", "ldmatrix.x2.trans of the last value words",
                 lanes::kTileRows, accesses);
}

int merge_pitch(const GqaDecode& descriptor) { return 4 * lanes::merge_pitch(descriptor.head_dim); }

}  // namespace

int stage_row_bytes(const GqaDecode& descriptor) {
  return descriptor.row_bytes() - header_bytes(descriptor) + padded_header_bytes(descriptor);
}

std::vector<TileAccess> stage_accesses(const Plan& plan) {
  const GqaDecode& descriptor = plan.descriptor;
  std::vector<TileAccess> accesses;
  if (descriptor.kv == KvFormat::int4_rows) {
    add_int4_rows(descriptor, accesses);
  } else if (has_scales(descriptor.kv)) {
    add_bytes(descriptor, accesses);
  } else {
    add_rows16(descriptor, accesses);
  }
  if (plan.family == Family::sm90) {
    for (TileAccess& access : accesses) access = of_outer_warps(access, plan.warps, descriptor.row_bytes());
  }
  // Boxes are written in whole rows and meet no banks that lanes would share.
  const char* const name = plan.family == Family::sm75 ? "stores of rows" : "cp.async of rows";
  accesses.insert(accesses.begin(),
                  plan.family == Family::sm90 ? pieces(plan.stage) : copies(descriptor, name, plan.copy_bytes));
  return accesses;
}

int slot_period(const codegen::TileLayout& stage, const TileAccess& copies) {
  std::vector<int> slots;
  for (int i = 0; i < copies.instances; ++i) {
    for (int lane = 0; lane < lanes::kWarpSize; ++lane) slots.push_back(stage.address(copies.at(i, lane).value()));
  }
  const auto repeats = [&](int i, int period) {
    const auto* const slot = &slots[static_cast<std::size_t>(i) * lanes::kWarpSize];
    const auto* const earlier = &slots[static_cast<std::size_t>(i % period) * lanes::kWarpSize];
    for (int lane = 1; lane < lanes::kWarpSize; ++lane) {
      if (slot[lane] - slot[0] != earlier[lane] - earlier[0]) return false;
    }
    return true;
  };
  for (int period = 1; period < copies.instances; ++period) {
    bool all = true;
    for (int i = period; i < copies.instances && all; ++i) all = repeats(i, period);
    if (all) return period;
  }
  return copies.instances;
}

int merge_bytes(const Plan& plan) {
  constexpr int kArrivedWord = 16;  // of last_block; padded so that the sum stays a multiple of 16
  return plan.warps * plan.heads_per_block * (merge_pitch(plan.descriptor) + 8) + kArrivedWord;
}

int Plan::flush_stages() const { return std::max(1, 48 * 1024 / stage_bytes()); }

int Plan::results_at(int stage_count) const {
  return family == Family::sm90 ? (ring_bytes(stage_count) + 15) / 16 * 16 : 0;
}

int Plan::barriers_at(int stage_count) const {
  const int end = std::max(ring_bytes(stage_count), results_at(stage_count) + merge_bytes(*this));
  return (end + 15) / 16 * 16;
}

std::vector<Tile> merge_tiles(const Plan& plan) {
  const GqaDecode& descriptor = plan.descriptor;
  const int warps = plan.warps;
  const int heads = plan.heads_per_block;
  const int tiles = plan.head_tiles();
  const int quads = descriptor.head_dim / 4;
  const codegen::TileLayout outputs{warps * heads, 4 * descriptor.head_dim, merge_pitch(descriptor), {}};
  const auto head_of = [heads](int tile, int i, int lane) {
    const int head = lanes::accumulator_head(lane, tile, i);
    return head < heads ? std::optional<int>(head) : std::nullopt;
  };
  // Rows16::store: one float per lane; RowsOfBytes::store two neighbouring channels, Int4Rows::store four.
  const int channels = descriptor.kv == KvFormat::int4_rows ? 4 : has_scales(descriptor.kv) ? 2 : 1;
  const int steps = descriptor.head_dim / (channels == 4 ? 32 : 16);
  const int elements = channels == 1 ? 4 : 2;
  const TileAccess stores{"stores of warps' outputs", AccessKind::store, 4 * channels, tiles * elements * steps,
                          [=](int instance, int lane) -> MaybeByte {
                            const int i = instance / steps % elements;
                            const auto head = head_of(instance / steps / elements, i & 1, lane);
                            if (!head) return std::nullopt;
                            const int step = instance % steps;
                            const int channel = channels == 4   ? lanes::int4_channel(lane, step)
                                                : channels == 2 ? lanes::byte_channel(lane, step)
                                                                : lanes::rows16_channel(lane, step, i);
                            return TileByte{*head, 4 * channel};
                          }};
  const int items = heads * quads;
  const TileAccess loads{"loads of warps' outputs", AccessKind::load, 16, (items + 31) / 32,
                         [=](int instance, int lane) -> MaybeByte {
                           const int item = 32 * instance + lane;
                           if (item >= items) return std::nullopt;
                           return TileByte{item / quads, 16 * (item % quads)};
                         }};
  const codegen::TileLayout stats{warps * heads, 8, 8, {}};
  const TileAccess stat_stores{"stores of warps' sums", AccessKind::store, 8, 2 * tiles,
                               [=](int instance, int lane) -> MaybeByte {
                                 const auto head = lane < 4 ? head_of(instance / 2, instance % 2, lane) : std::nullopt;
                                 if (!head) return std::nullopt;
                                 return TileByte{*head, 0};
                               }};
  const TileAccess stat_loads{"loads of warps' sums", AccessKind::load, 8, (items + 31) / 32,
                              [=](int instance, int lane) -> MaybeByte {
                                const int item = 32 * instance + lane;
                                if (item >= items) return std::nullopt;
                                return TileByte{item / quads, 0};
                              }};
  return {{"warps' outputs", outputs, {stores, loads}}, {"warps' sums", stats, {stat_stores, stat_loads}}};
}

}  // namespace cubit::ops::gqa_decode
