// Shared-memory accesses of the merge: of a block's warps' results, and of other blocks' parts. As accesses.cpp.
#include <algorithm>
#include <bit>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "templates/attention/gqa_decode_lanes.h"

namespace cubit::ops::gqa_decode {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using kv_cache::RowFormat;
using MaybeByte = std::optional<TileByte>;

int merge_pitch(const Plan& plan) { return 4 * lanes::merge_pitch(plan.formats().value.head_dim, plan.heads_are_rows); }

constexpr int kArrivedWord = 16;  // of last_block or merge_parts, before what is merged

constexpr const char* kStoresOfOutputs = "stores of warps' outputs";

/// Heads of a block's first warp: others that have the same rows store behind it, in the same way.
auto heads_of_first_warp(const Plan& plan) {
  return [heads = plan.heads_per_warp(), are_rows = plan.heads_are_rows](int tile, int i, int lane) {
    const int head = are_rows ? lanes::row_head(lane, i) : lanes::accumulator_head(lane, tile, i);
    return head < heads ? std::optional<int>(head) : std::nullopt;
  };
}

/// Rows16::store: one float per lane; RowsOfBytes::store two neighbouring channels, Int4Rows::store four.
TileAccess output_stores(const Plan& plan) {
  const RowFormat values = plan.formats().value;
  const int channels = values.kv == KvFormat::int4_rows ? 4 : values.has_scales() ? 2 : 1;
  const int steps = values.head_dim / (channels == 4 ? 32 : 16);
  const int elements = channels == 1 ? 4 : 2;
  const int of_warp = plan.head_tiles() * elements * steps;
  // Of unaligned rows the warps that are abreast have the channels in another order each.
  const bool is_unaligned = plan.copies_unaligned_rows();
  return {kStoresOfOutputs, AccessKind::store, 4 * channels, (is_unaligned ? plan.warps_abreast() : 1) * of_warp,
          [=, head_of = heads_of_first_warp(plan)](int instance, int lane) -> MaybeByte {
            const int words_before = (instance / of_warp + 1) * values.groups;
            const int i = instance / steps % elements;
            const auto head = head_of(instance % of_warp / steps / elements, i & 1, lane);
            if (!head) return std::nullopt;
            const int step = instance % steps;
            const int channel = is_unaligned    ? lanes::int4_channel_between(lane, step, words_before)
                                : channels == 4 ? lanes::int4_channel(lane, step)
                                : channels == 2 ? lanes::byte_channel(lane, step)
                                                : lanes::rows16_channel(lane, step, i);
            return TileByte{*head, 4 * channel};
          }};
}

/// Rows16ByHeads::store: two neighbouring channels of a head.
TileAccess output_stores_by_heads(const Plan& plan) {
  const int eights = plan.formats().value.head_dim / 8;
  return {kStoresOfOutputs, AccessKind::store, 8, plan.head_tiles() * eights,
          [=, head_of = heads_of_first_warp(plan)](int instance, int lane) -> MaybeByte {
            const auto head = head_of(0, instance / eights, lane);
            if (!head) return std::nullopt;
            return TileByte{*head, 4 * lanes::row_channel(lane, instance % eights)};
          }};
}

/// Four channels per thread. Of the last head group there may be fewer heads: then the loads of all groups' blocks, one
/// after the other.
TileAccess output_loads(const Plan& plan) {
  const int quads = plan.formats().value.head_dim / 4;
  const int items = plan.heads_per_block * quads;
  const int instances = (items + 31) / 32;
  const int last_heads = plan.heads() - (plan.head_groups - 1) * plan.heads_per_block;
  const int groups = last_heads == plan.heads_per_block ? 1 : plan.head_groups;
  return {"loads of warps' outputs", AccessKind::load, 16, groups * instances,
          [=](int instance, int lane) -> MaybeByte {
            const int item = 32 * (instance % instances) + lane;
            const bool is_last = instance / instances == groups - 1;
            if (item >= (is_last ? last_heads * quads : items)) return std::nullopt;
            return TileByte{item / quads, 16 * (item % quads)};
          }};
}

TileAccess sum_stores(const Plan& plan) {
  const bool are_rows = plan.heads_are_rows;
  return {"stores of warps' sums", AccessKind::store, 8, are_rows ? 2 : 2 * plan.head_tiles(),
          [=, head_of = heads_of_first_warp(plan)](int instance, int lane) -> MaybeByte {
            const bool is_first = are_rows ? lane % 4 == 0 : lane < 4;
            const auto head = is_first ? head_of(instance / 2, instance % 2, lane) : std::nullopt;
            if (!head) return std::nullopt;
            return TileByte{*head, 0};
          }};
}

/// By the threads that load outputs.
TileAccess sum_loads(const Plan& plan) {
  const int quads = plan.formats().value.head_dim / 4;
  const int items = plan.heads_per_block * quads;
  return {"loads of warps' sums", AccessKind::load, 8, (items + 31) / 32, [=](int instance, int lane) -> MaybeByte {
            const int item = 32 * instance + lane;
            if (item >= items) return std::nullopt;
            return TileByte{item / quads, 0};
          }};
}

}  // namespace

int merge_bytes(const Plan& plan) {
  return plan.row_warps() * plan.heads_per_block * (merge_pitch(plan) + 8) + kArrivedWord;
}

int pair_bytes(const Plan& plan) {
  const int half = 4 * plan.formats().value.head_dim / 2;
  return plan.row_warps() * plan.heads_per_block * (half + 8);
}

bool Plan::merges_pairs() const { return family == "sm90" && pair_bytes(*this) <= ring_bytes(stages); }

int Plan::parts_at_once() const {
  const bool rows_of_whole_warps = formats().value.head_dim / 4 % lanes::kWarpSize == 0;
  if (family != "sm80" || !rows_of_whole_warps) return 0;
  const int room = ring_bytes(stages) - kArrivedWord - 8 * threads();
  return std::min<int>(lanes::kWarpSize,
                       static_cast<int>(std::bit_floor(static_cast<unsigned>(room / (16 * threads())))));
}

std::vector<Tile> part_tiles(const Plan& plan) {
  const int parts = plan.parts_at_once();
  if (parts == 0) return {};
  const int warps = plan.warps;
  const auto of_thread = [warps](int instance, int lane) -> MaybeByte {
    return TileByte{instance / warps, 16 * (instance % warps * lanes::kWarpSize + lane)};
  };
  const auto of_lane = [](int warp, int lane) -> MaybeByte { return TileByte{warp, 8 * lane}; };
  const auto of_part = [warps](int instance, int) -> MaybeByte {
    return TileByte{instance % warps, 8 * (instance / warps)};
  };
  const int pitch = 16 * plan.threads();
  return {{"other blocks' outputs",
           {parts, pitch, pitch, {}},
           {{"cp.async of parts", AccessKind::store, 16, parts * warps, of_thread},
            {"loads of parts", AccessKind::load, 16, parts * warps, of_thread}}},
          {"other blocks' weights",
           {warps, 8 * lanes::kWarpSize, 8 * lanes::kWarpSize, {}},
           {{"stores of parts' weights", AccessKind::store, 8, warps, of_lane},
            {"loads of parts' weights", AccessKind::load, 8, parts * warps, of_part}}}};
}

std::vector<Tile> merge_tiles(const Plan& plan) {
  const int rows = plan.row_warps() * plan.heads_per_block;
  const codegen::TileLayout outputs{rows, 4 * plan.formats().value.head_dim, merge_pitch(plan), {}};
  const codegen::TileLayout sums{rows, 8, 8, {}};
  return {{"warps' outputs",
           outputs,
           {plan.heads_are_rows ? output_stores_by_heads(plan) : output_stores(plan), output_loads(plan)}},
          {"warps' sums", sums, {sum_stores(plan), sum_loads(plan)}}};
}

}  // namespace cubit::ops::gqa_decode
