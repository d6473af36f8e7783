// The report of the families whose warps have a ring each: tiles, the map of shared memory, and decisions.
#include "ops/gqa_decode/report.hpp"

#include <fmt/format.h>

#include <iterator>

#include "ops/gqa_decode/warp_ring/warp_ring.hpp"
#include "ops/text.hpp"

namespace cubit::ops::gqa_decode::warp_ring {
namespace {

std::vector<Tile> tiles_of_merge(const Plan& plan) {
  return merge_tiles(plan, plan.warps, merge_pitch(plan, false), output_stores(plan), sum_stores(plan));
}

std::vector<Tile> stage_tiles(const Plan& plan, const char* copies) {
  if (plan.formats().are_alike()) {
    return {{"stage: 16 rows of keys, then 16 of values", plan.stage, stage_accesses(plan, copies)}};
  }
  return {{"stage: 16 rows of keys", plan.stage, stage_accesses(plan, copies)},
          {"stage, behind the keys: 16 rows of values", plan.value_stage, value_stage_accesses(plan, copies)}};
}

void append(std::vector<Tile>& tiles, std::vector<Tile> more) {
  tiles.insert(tiles.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string bytes_of_row(const kv_cache::RowFormat& format) {
  return fmt::format("{} bytes of header before {} of row", format.header_bytes(),
                     format.row_bytes() - format.header_bytes());
}

}  // namespace

std::vector<Tile> report_tiles(const Plan& plan, const char* copies, std::vector<Tile> query_tiles,
                               std::vector<Tile> partial_tiles) {
  std::vector<Tile> tiles = stage_tiles(plan, copies);
  append(tiles, std::move(query_tiles));
  append(tiles, tiles_of_merge(plan));
  append(tiles, std::move(partial_tiles));
  return tiles;
}

std::vector<MemoryRegion> memory_map(const Plan& plan, int query_bytes, const std::vector<Tile>& partial_tiles) {
  std::vector<MemoryRegion> map;
  const int bytes = plan.stage_bytes();
  for (int i = 0; i < plan.warps * plan.stages; ++i) {
    map.push_back(
        {"loop", fmt::format("warp {}", i / plan.stages), fmt::format("stage {}", i % plan.stages), i * bytes, bytes});
  }
  if (query_bytes > 0) map.push_back({"loop", "block", "query operands", plan.ring_bytes(plan.stages), query_bytes});
  add_merge_regions(map, tiles_of_merge(plan), 0, merge_bytes(plan, plan.warps, merge_pitch(plan, false)));
  int offset = kArrivedWordBytes;
  for (const Tile& tile : partial_tiles) {
    map.push_back({"last block", "block", tile.name, offset, tile.layout.rows * tile.layout.pitch});
    offset += map.back().bytes;
  }
  return map;
}

Decision warp_decision(const Plan& plan, const codegen::Architecture& architecture) {
  std::string why = "there is one for each scheduler of an SM";
  if (plan.warps < 4) {
    why = fmt::format("stages of {} bytes for one warp per scheduler do not fit {} bytes of shared memory",
                      plan.stage_bytes(), architecture.shared_memory_per_block);
  }
  return {"warps", std::to_string(plan.warps),
          "each warp computes tiles of its own, so the loop has no barrier of the block; " + why};
}

Decision copy_decision(const Plan& plan) {
  const kv_cache::CacheFormats formats = plan.formats();
  const std::string rows =
      formats.are_alike() ? bytes_of_row(formats.key)
                          : fmt::format("{}; of values {}", bytes_of_row(formats.key), bytes_of_row(formats.value));
  return {"copy", fmt::format("{} bytes per lane", plan.copy_bytes),
          fmt::format("alignment={} and {}", plan.descriptor.alignment_bytes(), rows)};
}

Decision stage_decision(const Plan& plan) {
  const auto half = [](const codegen::TileLayout& layout) {
    return fmt::format("{} from row to row, {}", layout.pitch, swizzle_text(layout.swizzle));
  };
  if (plan.formats().are_alike()) {
    return {"stage",
            fmt::format("{} bytes, {} rows of keys and of values, {}", plan.stage_bytes(), plan.stage.rows / 2,
                        half(plan.stage)),
            "it is the simplest layout with the fewest wavefronts over the accesses below"};
  }
  return {"stage",
          fmt::format("{} bytes: 16 rows of keys, {}, then 16 of values, {}", plan.stage_bytes(), half(plan.stage),
                      half(plan.value_stage)),
          "each format has the simplest layout with the fewest wavefronts over its accesses below"};
}

Decision split_decision() {
  return {"split_kv", "chosen at launch from bounds and the device alone",
          "blocks should fill whole waves of the device, and the merge of many splits costs time as well"};
}

Decision page_decision() {
  return {
      "cache", "paged, looked up 32 tiles at a time",
      "a tile of 16 tokens lies in one page if the page size is a multiple of 16; else each lane finds one row of the "
      "tile, a tile ahead"};
}

}  // namespace cubit::ops::gqa_decode::warp_ring
