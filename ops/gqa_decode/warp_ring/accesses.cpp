// Shared-memory accesses of the families whose warps have a ring each, and the places of a lane's copies.
#include "ops/gqa_decode/warp_ring/warp_ring.hpp"

namespace cubit::ops::gqa_decode::warp_ring {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using kv_cache::RowFormat;

/// Fetcher's copies of `rows` rows: keys and values, or one of them.
TileAccess copies_of(const RowFormat& format, const char* name, int copy_bytes, int rows) {
  const int row_bytes = format.row_bytes();
  const int header = format.header_bytes();
  const int padding = padded_header_bytes(format) - header;
  return {name, AccessKind::store, copy_bytes, lanes::count_copies(header, row_bytes, copy_bytes, rows),
          [=](int instance, int lane) -> MaybeByte {
            const auto [row, byte] = lanes::copied_piece(instance, lane, header, row_bytes, copy_bytes, rows);
            if (row >= rows) return std::nullopt;
            return TileByte{row, byte < header ? byte : byte + padding};
          }};
}

/// place_of_value: the same access of values that have a layout of their own, whose rows begin at 0.
TileAccess of_values_alone(const TileAccess& access) {
  return {access.name, access.kind, access.bytes_per_lane, access.instances,
          [at = access.at](int instance, int lane) -> MaybeByte {
            MaybeByte byte = at(instance, lane);
            if (byte) byte->row -= lanes::kTileRows;
            return byte;
          }};
}

int rows_of_keys(const kv_cache::CacheFormats& formats) {
  return formats.are_alike() ? 2 * lanes::kTileRows : lanes::kTileRows;
}

/// Addresses in a stage of every copy, for all 32 lanes; nothing for a lane that has no part in the copy.
using Slots = std::vector<std::optional<int>>;

void add_slots(Slots& slots, const TileAccess& copies, const codegen::TileLayout& stage, int first_byte) {
  for (int i = 0; i < copies.instances; ++i) {
    for (int lane = 0; lane < lanes::kWarpSize; ++lane) {
      const MaybeByte byte = copies.at(i, lane);
      slots.push_back(byte ? std::optional(first_byte + stage.address(*byte)) : std::nullopt);
    }
  }
}

/// Whether copy i goes where copy i % period goes, plus one distance for all lanes.
bool repeats(const Slots& slots, int i, int period) {
  const auto* const slot = &slots[static_cast<std::size_t>(i) * lanes::kWarpSize];
  const auto* const earlier = &slots[static_cast<std::size_t>(i % period) * lanes::kWarpSize];
  for (int lane = 1; lane < lanes::kWarpSize; ++lane) {
    if (slot[lane] && (!earlier[lane] || *slot[lane] - *slot[0] != *earlier[lane] - *earlier[0])) return false;
  }
  return true;
}

TileAccess key_copies(const Plan& plan, const char* name) {
  const kv_cache::CacheFormats formats = plan.formats();
  return copies_of(formats.key, name, plan.copy_bytes, rows_of_keys(formats));
}

TileAccess value_copies(const Plan& plan, const char* name) {
  return copies_of(plan.formats().value, name, plan.copy_bytes, lanes::kTileRows);
}

}  // namespace

std::vector<TileAccess> stage_accesses(const Plan& plan, const char* copies) {
  const kv_cache::CacheFormats formats = plan.formats();
  std::vector<TileAccess> accesses = {key_copies(plan, copies)};
  add_padding_stores(formats.key, rows_of_keys(formats), accesses);
  add_key_reads(formats.key, accesses);
  if (formats.are_alike()) add_value_reads(formats.value, plan.head_tiles(), accesses);
  return accesses;
}

std::vector<TileAccess> value_stage_accesses(const Plan& plan, const char* copies) {
  const kv_cache::CacheFormats formats = plan.formats();
  if (formats.are_alike()) return {};
  std::vector<TileAccess> accesses = {value_copies(plan, copies)};
  add_padding_stores(formats.value, lanes::kTileRows, accesses);
  std::vector<TileAccess> reads;
  add_value_reads(formats.value, plan.head_tiles(), reads);
  for (const TileAccess& access : reads) accesses.push_back(of_values_alone(access));
  return accesses;
}

int count_copies(const Plan& plan) {
  return key_copies(plan, "").instances + (plan.formats().are_alike() ? 0 : value_copies(plan, "").instances);
}

int find_slot_period(const Plan& plan) {
  Slots slots;
  add_slots(slots, key_copies(plan, ""), plan.stage, 0);
  if (!plan.formats().are_alike()) add_slots(slots, value_copies(plan, ""), plan.value_stage, plan.stage.size());
  const int copies = static_cast<int>(slots.size()) / lanes::kWarpSize;
  for (int period = 1; period < copies; ++period) {
    bool all = true;
    for (int i = period; i < copies && all; ++i) all = repeats(slots, i, period);
    if (all) return period;
  }
  return copies;
}

}  // namespace cubit::ops::gqa_decode::warp_ring
