// Shared-memory accesses of the merge of a block's warps: stores of each warp's results, loads of all results.
#include "ops/gqa_decode/accesses.hpp"

namespace cubit::ops::gqa_decode {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using kv_cache::RowFormat;

/// Loads of four channels per thread. If the last head group has fewer query rows, the access has the loads of every
/// group's block, one after the other.
TileAccess output_loads(const CommonPlan& plan) {
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

/// Loads of sums by the threads that load outputs.
TileAccess sum_loads(const CommonPlan& plan) {
  const int quads = plan.formats().value.head_dim / 4;
  const int items = plan.heads_per_block * quads;
  return {"loads of warps' sums", AccessKind::load, 8, (items + 31) / 32, [=](int instance, int lane) -> MaybeByte {
            const int item = 32 * instance + lane;
            if (item >= items) return std::nullopt;
            return TileByte{item / quads, 0};
          }};
}

}  // namespace

int merge_pitch(const CommonPlan& plan, bool heads_are_m) {
  return 4 * lanes::merge_pitch(plan.formats().value.head_dim, heads_are_m);
}

int merge_bytes(const CommonPlan& plan, int warps, int pitch) {
  return warps * plan.heads_per_block * (pitch + 8) + kArrivedWordBytes;
}

/// Rows16::store: one float per lane; RowsOfBytes::store two neighbouring channels, Int4Rows::store four.
TileAccess output_stores(const CommonPlan& plan) {
  const RowFormat values = plan.formats().value;
  const int channels = values.kv == KvFormat::int4_rows ? 4 : values.has_scales() ? 2 : 1;
  const int steps = values.head_dim / (channels == 4 ? 32 : 16);
  const int elements = channels == 1 ? 4 : 2;
  return {kOutputStores, AccessKind::store, 4 * channels, plan.head_tiles() * elements * steps,
          [=, heads = plan.heads_per_warp](int instance, int lane) -> MaybeByte {
            const int i = instance / steps % elements;
            const int head = lanes::accumulator_head(lane, instance / steps / elements, i & 1);
            if (head >= heads) return std::nullopt;
            const int step = instance % steps;
            const int channel = channels == 4   ? lanes::int4_channel(lane, step)
                                : channels == 2 ? lanes::byte_channel(lane, step)
                                                : lanes::rows16_channel(lane, step, i);
            return TileByte{head, 4 * channel};
          }};
}

TileAccess sum_stores(const CommonPlan& plan) {
  return {kSumStores, AccessKind::store, 8, 2 * plan.head_tiles(),
          [heads = plan.heads_per_warp](int instance, int lane) -> MaybeByte {
            const int head = lanes::accumulator_head(lane, instance / 2, instance % 2);
            if (lane >= 4 || head >= heads) return std::nullopt;
            return TileByte{head, 0};
          }};
}

std::vector<Tile> merge_tiles(const CommonPlan& plan, int warps, int pitch, TileAccess outputs, TileAccess sums) {
  const int rows = warps * plan.heads_per_block;
  return {{"warps' outputs",
           {rows, 4 * plan.formats().value.head_dim, pitch, {}},
           {std::move(outputs), output_loads(plan)}},
          {"warps' sums", {rows, 8, 8, {}}, {std::move(sums), sum_loads(plan)}}};
}

}  // namespace cubit::ops::gqa_decode
