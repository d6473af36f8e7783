// The report of kernel family sm90: tiles, the map of shared memory, and decisions.
#include "ops/gqa_decode/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/gqa_decode/sm90/sm90.hpp"
#include "ops/text.hpp"

namespace cubit::ops::gqa_decode::sm90 {
namespace {

Decision warpgroup_tile_decision(const Plan& plan) {
  return {
      "tile", fmt::format("64 query rows x {} tokens", 16 * plan.tiles_per_stage),
      fmt::format(
          "query rows are the M of wgmma.m64nNk16, {} for each of four warps; rows of the cache are its B operand as "
          "they lie in the stage, and more query rows cost no more instructions",
          plan.heads_per_warp)};
}

/// Why a block does not compute all query rows of a KV head.
std::string row_limit(const Plan& plan) {
  if (!plan.copies_unaligned_rows()) return register_limit(plan);
  return fmt::format("rows of {} bytes make a multiple of 16 bytes only if {} warps have rows of their own, and {}",
                     plan.descriptor.row_bytes(), plan.interleaved_warps(),
                     plan.query_groups == 1
                         ? "no warps share rows: a warp holds 8 query rows"
                         : fmt::format("at most {} warps share rows, with 8 query rows each", plan.query_groups));
}

Decision copy_decision(const Plan& plan) {
  const GqaDecode& descriptor = plan.descriptor;
  if (plan.copies_unaligned_rows()) {
    const std::string at_end =
        descriptor.window ? "the end of a sequence or of its window, as many" : "the end of a sequence, 16";
    return {"copy", fmt::format("boxes of {} bytes x {} rows", plan.stage.row_bytes, 16 * plan.tiles_per_stage),
            fmt::format("a box row is {} interleaved rows of {} bytes, one for each warp's tokens or KV heads; a lane "
                        "copies {} bytes at a time if a launch finds no boxes, and at {}",
                        plan.interleaved_warps(), descriptor.row_bytes(), plan.copy_bytes, at_end)};
  }
  const char* const pages = descriptor.cache == KvAddressing::paged ? " or a page has few of them" : "";
  return {
      "copy", fmt::format("boxes of up to {} bytes x {} rows", plan.stage.row_bytes, plan.stage.rows),
      fmt::format("a box row is {} interleaved rows of {} bytes, one for each warp's tokens or for a few KV heads; a "
                  "lane copies 16 bytes at a time if rows do not follow one another in the cache{}, and at the end "
                  "of a sequence",
                  plan.token_warps(), descriptor.row_bytes(), pages)};
}

/// What a caller can do so that launches find boxes of unaligned rows.
Decision boxes_decision(const Plan& plan) {
  return {"boxes at launch", "if addresses and strides of batch entries are multiples of 16 bytes",
          fmt::format(
              "rows must follow one another as well: with one KV head allocate multiples of {} tokens. There are no "
              "boxes if max_length is less than a stage, {} tokens of one KV head. Copies of {} bytes are slower",
              plan.interleaved_warps(), plan.chunk_tokens(), plan.copy_bytes)};
}

/// Whether rows are so short, or of so many groups, that copies do not hide the instructions of a tile. Measured: the
/// rows that are below 80% of the floor, or just at it, and the next longer rows
/// (bench/results/gqa_decode/gqa_decode_h200.json).
bool are_bound_by_arithmetic(const Plan& plan) {
  constexpr int kShort = 56;
  constexpr int kShortOfEightGroups = 96;
  if (plan.descriptor.kv != KvFormat::int4_rows) return false;
  return plan.descriptor.row_bytes() <= (plan.descriptor.groups == 8 ? kShortOfEightGroups : kShort);
}

Decision arithmetic_decision(const Plan& plan) {
  const bool has_eight = plan.descriptor.groups == 8;
  return {"limit",
          fmt::format("arithmetic, not the memory: {} of a plain read at B = 128 on an H200, {} on an H100",
                      has_eight ? "78%" : "61 to 74%", has_eight ? "92%" : "77 to 89%"),
          fmt::format(
              "rows of {} bytes bring little per token, while scores, softmax{} of a token take the same instructions "
              "as with rows of any length",
              plan.descriptor.row_bytes(), has_eight ? " and the scales and shifts of 8 groups" : " and headers")};
}

Decision pacing_decision(const Plan& plan) {
  return {
      "copy pacing",
      fmt::format("{} stages are requested at the beginning, then one each time that the memory could have delivered "
                  "one to every block",
                  plan.initial_stages()),
      "SMs that request all they have room for do not get equal shares, and MMAs leave no time to catch up"};
}

Decision start_offset_decision() {
  return {
      "start offset",
      "a block may begin in the middle of its segment if tokens are a multiple of 5 bytes apart and the memory has 5 "
      "stacks",
      "such tokens are in the same stack at the same place of all sequences, which blocks would reach together"};
}

Decision stage_decision(const Plan& plan) {
  const codegen::TileLayout& stage = plan.stage;
  const std::string value = fmt::format("{} bytes, {} rows of keys and of values, {} from row to row, {}",
                                        plan.stage_bytes(), stage.rows, stage.pitch, swizzle_text(stage.swizzle));
  const int part = 16 << stage.swizzle.bits;
  if (plan.copies_unaligned_rows()) {
    return {"stage", value,
            fmt::format("rows lie in the order of the cache: the rows of {} warps are an odd number of 16 bytes and "
                        "differ in banks",
                        plan.interleaved_warps())};
  }
  if (stage.part_bytes == 0) {
    return {"stage", value,
            fmt::format(
                "it has the swizzle of tensor maps; rows are an odd number of {} bytes, so they differ in the swizzle",
                part)};
  }
  return {"stage", fmt::format("{}, in {} parts of {} bytes", value, stage.row_bytes / part, part),
          "it has the swizzle of tensor maps, in which whole rows of an even number of parts would not differ"};
}

Decision warp_decision(const Plan& plan) {
  return {"warps", fmt::format("{} consumer and {} producer", plan.warps, plan.producer_warps),
          fmt::format(
              "there are two consumer warps for each scheduler of an SM, or as many as have room for their stages and "
              "registers; a stage has rows for all of them{}",
              plan.query_groups == 1
                  ? ""
                  : fmt::format(", and {} of them share each row, each for query rows of its own", plan.query_groups))};
}

Decision split_decision(const Plan& plan) {
  return {"split_kv",
          "a balanced share of all stages per block, computed from the lengths by the host, or by the kernel if the "
          "lengths are "
          "on the device",
          fmt::format("a block gets whole parts of sequences if that is nearly as fast, because the end of a segment "
                      "costs as much as {}",
                      counted(plan.segment_end_stages(), "stage"))};
}

Decision page_decision(const Plan& plan) {
  return {"cache", "paged, looked up 32 boxes ahead",
          fmt::format(
              "a box lies in one page: pages of a multiple of {} tokens are copied in boxes, smaller pages as vectors "
              "of 16 bytes",
              std::max(1, plan.chunk_tokens() / 32))};
}

/// What the schedule and the pipeline do beyond the plain loop.
void add_pipeline_decisions(std::vector<Decision>& decisions, const Plan& plan) {
  if (plan.merges_in_cluster()) {
    decisions.push_back({"cluster", "two blocks that have a sequence to themselves merge it as a 2-CTA cluster",
                         "each block merges half of the channels, for which the other block stores its sums in this "
                         "block's shared memory: no partial results, fence and counter in global memory"});
  }
  if (plan.offsets_start()) decisions.push_back(start_offset_decision());
  if (plan.paces_copies()) decisions.push_back(pacing_decision(plan));
  if (plan.evicts_first()) {
    decisions.push_back({"cache eviction", "the L2 evicts lines of the cache first",
                         "no block reads them again: partial results, queries and page tables stay instead"});
  }
  if (plan.copies_unaligned_rows()) decisions.push_back(boxes_decision(plan));
  if (are_bound_by_arithmetic(plan)) decisions.push_back(arithmetic_decision(plan));
  if (reads_row_scales(plan)) {
    decisions.push_back(
        {"scales", "consumer warps load them into registers a stage ahead",
         "scales in a tensor of their own have other strides than rows, and are not in the boxes of rows"});
  }
}

std::string stage_name(const Plan& plan) {
  return fmt::format("stage: {} rows of keys, interleaved over {} warps; rows of values behind them in the same way",
                     plan.stage.rows, plan.interleaved_warps());
}

std::vector<MemoryRegion> memory_map(const Plan& plan) {
  std::vector<MemoryRegion> map;
  const int bytes = plan.stage_bytes();
  for (int i = 0; i < plan.stages; ++i) map.push_back({"loop", "block", fmt::format("stage {}", i), i * bytes, bytes});
  const int barriers_at = plan.barriers_at(plan.stages);
  map.push_back({"loop", "block", "barriers", barriers_at, plan.scratch_at(plan.stages) - barriers_at});
  map.push_back({"loop", "block", "scratch", plan.scratch_at(plan.stages), plan.scratch_bytes()});
  add_merge_regions(map, tiles_of_merge(plan), plan.results_at(plan.stages), plan.results_bytes());
  if (plan.merges_in_cluster())
    map.push_back({"cluster", "block", "the other block's sums", 0, plan.cluster_exchange_bytes()});
  return map;
}

}  // namespace

std::vector<Decision> decisions_of(const Plan& plan, const codegen::Architecture& architecture) {
  const std::string holder = plan.query_groups == 1 ? "" : fmt::format(", {} for each warp", plan.heads_per_warp);
  const std::string moved = plan.consumer_registers == 0
                                ? ""
                                : fmt::format(" ({} after producer warps have released all but {} of theirs)",
                                              plan.consumer_registers, plan.producer_registers);
  std::vector<Decision> decisions = {
      plan.heads_are_m ? warpgroup_tile_decision(plan) : tile_decision(plan, architecture),
      head_group_decision(plan, holder, row_limit(plan))};
  for (Decision& decision : operand_decisions(plan, architecture)) decisions.push_back(std::move(decision));
  decisions.push_back(warp_decision(plan));
  decisions.push_back(copy_decision(plan));
  decisions.push_back(stage_decision(plan));
  decisions.push_back(stages_decision(plan, plan.ring_bytes(plan.stages - 1),
                                      plan.paces_copies() ? "in flight or copied ahead" : "in flight",
                                      bytes_in_flight(plan)));
  decisions.push_back(block_decision(plan, plan.threads(), architecture, moved));
  decisions.push_back(split_decision(plan));
  add_middle_decision(decisions, plan.descriptor);
  add_pipeline_decisions(decisions, plan);
  if (plan.recomputes_lanes) decisions.push_back(lane_decision());
  add_role_decisions(decisions, plan.descriptor, page_decision(plan));
  return decisions;
}

void report_plan(Plan& plan, const codegen::Architecture& architecture) {
  std::vector<Tile> tiles = {{stage_name(plan), plan.stage, stage_accesses(plan)}};
  for (Tile& tile : tiles_of_merge(plan)) tiles.push_back(std::move(tile));
  const std::vector<std::string> warpgroup_fragments = {"wgmma.m64k16 A, 16-bit", "wgmma.m64n8 D, 32-bit"};
  write_report(plan, {.tiles = std::move(tiles),
                      .memory = memory_map(plan),
                      .decisions = decisions_of(plan, architecture),
                      .fragments = plan.heads_are_m ? warpgroup_fragments : mma_fragments(plan, architecture)});
}

}  // namespace cubit::ops::gqa_decode::sm90
