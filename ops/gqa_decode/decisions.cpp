// What a plan decided, each with its reason, as `explain` says it.
#include <fmt/format.h>

#include <algorithm>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/text.hpp"

namespace cubit::ops::gqa_decode {
namespace {

std::string swizzle_text(const codegen::Swizzle& swizzle) {
  if (swizzle.bits == 0) return "no swizzle";
  return fmt::format("swizzle of {} bits, from bit {} onto bit {}", swizzle.bits, swizzle.shift_from, swizzle.base);
}

Decision tile_decision(const Plan& plan, const codegen::Architecture& architecture) {
  if (plan.heads_are_rows) {
    return {
        "tile", fmt::format("64 heads x {} tokens", 16 * plan.tiles_per_stage),
        fmt::format("heads are the M of wgmma.m64nNk16, {} of each of four warps: rows of the cache are its B operand "
                    "as they lie in the stage, and their number costs no more instructions",
                    plan.heads_per_warp())};
  }
  return {
      "tile", fmt::format("16 tokens x {} heads", 8 * plan.head_tiles()),
      fmt::format("tokens are the M of mma.m16n8k16{} and heads its N: one tile of heads per 8 query heads of a block",
                  architecture.has_mma({16, 8, 16, codegen::MmaType::fp16}) ? "" : " (two m16n8k8 here)")};
}

Decision query_decision(const GqaDecode& descriptor) {
  return {"query_tokens", fmt::format("{}, {}", descriptor.query_tokens, text_of(descriptor.mask)),
          fmt::format("{} x {} heads of a KV head, each with its query token; only tiles that end behind the first "
                      "query token's position are masked",
                      descriptor.query_tokens, descriptor.heads_per_kv)};
}

Decision head_group_decision(const Plan& plan) {
  const int heads = plan.heads();
  if (plan.head_groups == 1) {
    return {"head_groups", "1",
            fmt::format("{} fit{} the registers of one block{}: the cache is read once", counted(heads, "head"),
                        heads == 1 ? "s" : "",
                        plan.query_is_shared      ? ", beside query operands in shared memory"
                        : plan.column_groups == 1 ? ""
                                                  : fmt::format(", {} of a warp", plan.heads_per_warp()))};
  }
  const std::string why =
      plan.copies_unaligned_rows()
          ? fmt::format("{} warps need rows of their own to make a multiple of 16 bytes of {}, and {}",
                        plan.warps_abreast(), plan.descriptor.row_bytes(),
                        plan.column_groups == 1
                            ? "none share rows: one holds 8 heads"
                            : fmt::format("no more than {} share rows, of 8 heads each", plan.column_groups))
          : fmt::format("registers hold no more heads at head_dim={}", plan.descriptor.head_dim);
  return {"head_groups", fmt::format("{} of up to {} heads", plan.head_groups, plan.heads_per_block),
          fmt::format("{}; every group's block reads the cache, at best all but one from the L2, which {} times the "
                      "bytes cross",
                      why, plan.head_groups)};
}

Decision shared_query_decision(const Plan& plan) {
  return {"query operands", fmt::format("{} bytes of shared memory", plan.query_bytes()),
          fmt::format("beside the outputs of {} tiles of heads their registers would mean fewer warps per SM, or more "
                      "blocks, each of which reads and unpacks the whole cache",
                      plan.head_tiles())};
}

/// Rows of keys are operands beside the query, rows of values beside the weights.
struct Operands {
  const char* name;
  bool keys;
  bool values;
};

std::string scale_reason(const Operands& rows, bool one_for_all) {
  if (rows.keys && rows.values) {
    return one_for_all ? "exact; the keys' scale goes into the query's factor, the values' into the output"
                       : "exact; the keys' scales multiply scores, the values' the weights before they are rounded";
  }
  if (rows.keys) {
    return one_for_all ? "exact; their scale goes into the query's factor" : "exact; their scales multiply scores";
  }
  return one_for_all ? "exact; their scale goes into the output"
                     : "exact; their scales multiply the weights before they are rounded";
}

Decision bf16_decision(const Operands& rows, Element query) {
  const bool splits_query = rows.keys && query == Element::fp16;
  if (!splits_query && !rows.values) return {rows.name, "bf16", "the cache's own type, and the query's"};
  const char* const split = !splits_query ? "weights" : rows.values ? "query and weights" : "query";
  return {rows.name, fmt::format("bf16, {} in two terms", split),
          rows.values ? "the cache's own type; 8 bits of a weight would cost 2^-9 each, so the rest is a second product"
                      : "the cache's own type; a query of fp16 has 3 bits more, which are a second product"};
}

Decision operand_decision(const Operands& rows, const kv_cache::RowFormat& format, Element query,
                          const codegen::Architecture& architecture) {
  if (format.kv == KvFormat::int4_rows) {
    return {rows.name, "fp16, packed words as subnormals",
            "tensor cores multiply fp16 subnormals exactly: nothing is dequantised"};
  }
  if (format.has_scales()) {
    const bool converts = format.kv == KvFormat::fp8_e4m3 && architecture.fp8_conversion;
    return {rows.name, fmt::format("fp16, made of bytes by {}", converts ? "conversion" : "permutations"),
            scale_reason(rows, format.scales == KvScales::tensor)};
  }
  if (format.kv == KvFormat::bf16) return bf16_decision(rows, query);
  return {rows.name, "fp16",
          rows.keys ? "the cache's own type; queries are scaled by a power of two per head to fit its range"
                    : "the cache's own type"};
}

std::vector<Decision> operand_decisions(const Plan& plan, const codegen::Architecture& architecture) {
  const kv_cache::CacheFormats formats = plan.formats();
  const Element query = plan.descriptor.query;
  if (formats.are_alike()) return {operand_decision({"operands", true, true}, formats.key, query, architecture)};
  return {operand_decision({"operands of keys", true, false}, formats.key, query, architecture),
          operand_decision({"operands of values", false, true}, formats.value, query, architecture)};
}

/// Of outputs of fp16.
Decision middle_decision() {
  return {"middle of nibbles", "7.5 x scale, part of the shift",
          "weights times scales are rounded to fp16: beside nibbles, which have no sign, that costs two to three times "
          "what it does beside values, and outputs of fp16 show it; one more product per group"};
}

Decision copy_decision(const Plan& plan) {
  const GqaDecode& descriptor = plan.descriptor;
  if (plan.copies_unaligned_rows()) {
    return {
        "copy", fmt::format("boxes of {} bytes x {} rows", plan.stage.row_bytes, 16 * plan.tiles_per_stage),
        fmt::format("{} rows of {} bytes side by side, of as many warps' tokens or KV heads; {} bytes per lane where a "
                    "launch finds no boxes, and {} where a sequence{} ends within a stage",
                    plan.warps_abreast(), descriptor.row_bytes(), plan.copy_bytes, descriptor.window ? "as many" : "16",
                    descriptor.window ? " or its window" : "")};
  }
  if (plan.family == "sm90") {
    return {"copy", fmt::format("boxes of up to {} bytes x {} rows", plan.stage.row_bytes, plan.stage.rows),
            fmt::format("{} rows of {} bytes side by side, of as many warps' tokens or of a few KV heads; 16 bytes per "
                        "lane where they do not follow one another in the cache{}, and at a sequence's end",
                        plan.row_warps(), descriptor.row_bytes(),
                        descriptor.cache == KvAddressing::paged ? " or a page has few of them" : "")};
  }
  const kv_cache::CacheFormats formats = plan.formats();
  const auto row = [](const kv_cache::RowFormat& format) {
    return fmt::format("{} bytes of header before {} of row", format.header_bytes(),
                       format.row_bytes() - format.header_bytes());
  };
  const std::string rows =
      formats.are_alike() ? row(formats.key) : fmt::format("{}, of values {}", row(formats.key), row(formats.value));
  return {"copy", fmt::format("{} bytes per lane", plan.copy_bytes),
          fmt::format("alignment={} and {}", descriptor.alignment, rows)};
}

/// Family sm90, of unaligned rows: what a caller can do for the copies.
Decision boxes_decision(const Plan& plan) {
  return {
      "boxes at launch", "if addresses and strides of batch entries are multiples of 16 bytes",
      fmt::format("and rows follow one another: with one KV head allocate multiples of {} tokens. Nor are there boxes "
                  "where max_length is less than a stage, {} tokens of one KV head; copies of {} bytes are slower",
                  plan.warps_abreast(), plan.chunk_tokens(), plan.copy_bytes)};
}

/// Rows so short, or of so many groups, that copies do not hide what a tile of them takes. Measured: the rows of
/// bench/results/gqa_decode_h200.json that are below 80% of the floor, or just at it, and the next longer.
bool are_bound_by_arithmetic(const Plan& plan) {
  constexpr int kShort = 56;
  constexpr int kShortOfEightGroups = 96;
  if (plan.family != "sm90" || plan.descriptor.kv != KvFormat::int4_rows) return false;
  return plan.descriptor.row_bytes() <= (plan.descriptor.groups == 8 ? kShortOfEightGroups : kShort);
}

Decision arithmetic_decision(const Plan& plan) {
  const bool has_eight = plan.descriptor.groups == 8;
  return {
      "limit",
      fmt::format("arithmetic, not the memory: {} of a plain read at B = 128 on an H200, {} on an H100",
                  has_eight ? "78%" : "61 to 74%", has_eight ? "92%" : "77 to 89%"),
      fmt::format("rows of {} bytes bring little per token, while scores, softmax{} of a token take the "
                  "instructions that they take of rows of any length",
                  plan.descriptor.row_bytes(), has_eight ? " and the scales and shifts of 8 groups" : " and headers")};
}

/// Family sm75.
Decision held_decision(const Plan& plan) {
  const int pieces = count_copies(plan);
  if (plan.held_pieces == pieces) {
    return {"copies in registers", fmt::format("all {} of a lane", pieces),
            "without cp.async the next tile waits in registers while one is used, and is stored after it"};
  }
  return {"copies in registers", fmt::format("{} of {} of a lane", plan.held_pieces, pieces),
          "registers hold no more of the next tile, which has no cp.async; the rest is loaded and stored at once"};
}

/// Family sm90.
Decision pace_decision(const Plan& plan) {
  return {"pace",
          fmt::format("{} stages at once, then one each time that the memory could have brought one to every block",
                      plan.stages_at_once()),
          "SMs that ask for all they have room for do not get equal shares, and products leave no time to catch up in"};
}

/// Family sm90.
Decision stagger_decision() {
  return {"first stage of a block",
          "its first, or any where tokens are a multiple of 5 bytes apart and the memory has 5 stacks",
          "such tokens are in the same stack at the same place of all sequences, which blocks would reach together"};
}

Decision stages_decision(const Plan& plan) {
  if (plan.family == "sm75") {
    return {
        "stages", std::to_string(plan.stages),
        fmt::format("one in use and one that the next tile is stored to, at {}", counted(plan.blocks_per_sm, "block"))};
  }
  return {
      "stages", std::to_string(plan.stages),
      fmt::format("{} KiB {} per SM ({} wanted) at {}", plan.blocks_per_sm * plan.ring_bytes(plan.stages - 1) / 1024,
                  plan.keeps_pace() ? "in flight or ahead" : "in flight", bytes_in_flight(plan) / 1024,
                  counted(plan.blocks_per_sm, "block"))};
}

Decision stage_decision(const Plan& plan) {
  const codegen::TileLayout& stage = plan.stage;
  if (!plan.formats().are_alike()) {
    const auto half = [](const codegen::TileLayout& layout) {
      return fmt::format("{} from row to row, {}", layout.pitch, swizzle_text(layout.swizzle));
    };
    return {"stage",
            fmt::format("{} bytes: 16 rows of keys, {}, then 16 of values, {}", plan.stage_bytes(), half(stage),
                        half(plan.value_stage)),
            "of each format the simplest layout with the fewest wavefronts over its accesses below"};
  }
  const std::string value =
      fmt::format("{} bytes, {} rows of keys and of values, {} from row to row, {}", plan.stage_bytes(),
                  plan.family == "sm90" ? stage.rows : stage.rows / 2, stage.pitch, swizzle_text(stage.swizzle));
  if (plan.family != "sm90") {
    return {"stage", value, "the simplest layout with the fewest wavefronts over the accesses below"};
  }
  const int part = 16 << stage.swizzle.bits;
  if (plan.copies_unaligned_rows()) {
    return {
        "stage", value,
        fmt::format("in the order of the cache: rows of {} warps are an odd number of 16 bytes, and differ in banks",
                    plan.warps_abreast())};
  }
  if (stage.part_bytes == 0) {
    return {"stage", value,
            fmt::format("the swizzle of tensor maps; of an odd number of {} bytes, rows differ in it", part)};
  }
  return {"stage", fmt::format("{}, in {} parts of {} bytes", value, stage.row_bytes / part, part),
          "the swizzle of tensor maps, in which whole rows of an even number of those parts would not differ"};
}

Decision warp_decision(const Plan& plan, const codegen::Architecture& architecture) {
  if (plan.family == "sm90") {
    return {
        "warps", fmt::format("{} and {} that copy", plan.warps, plan.copy_warps),
        fmt::format("two per scheduler of an SM, or as many as have room for their stages and registers; a stage has "
                    "rows for all of them{}",
                    plan.column_groups == 1
                        ? ""
                        : fmt::format(", of which {} share each row, with columns of their own", plan.column_groups))};
  }
  std::string why = "one per scheduler of an SM";
  if (plan.warps < 4) {
    why = fmt::format("the stages of one per scheduler, {} bytes each, do not fit {} bytes of shared memory",
                      plan.stage_bytes(), architecture.shared_memory_per_block);
  }
  return {"warps", std::to_string(plan.warps),
          "each walks its own tiles, so the loop has no barrier of the block; " + why};
}

Decision split_decision(const Plan& plan) {
  if (plan.family == "sm90") {
    return {"split_kv",
            "an even share of all stages per block, from the lengths: by the host, or by the kernel where they are on "
            "the device",
            fmt::format("or whole parts of sequences where that is nearly as fast: a segment's end costs as much as {}",
                        counted(plan.flush_stages(), "stage"))};
  }
  return {"split_kv", "chosen at launch, from bounds and device alone",
          "enough blocks to fill whole waves of the device; the merge of many splits costs time as well"};
}

Decision offset_decision(const Plan& plan) {
  if (plan.keep_offsets) {
    return {"copy offsets", "kept in registers",
            "fewer instructions per tile, and a register for each copy is at hand"};
  }
  return {"copy offsets", "computed for every tile",
          fmt::format("{} of them beside what else the loop keeps would leave too few registers", count_copies(plan))};
}

Decision block_decision(const Plan& plan, const codegen::Architecture& architecture) {
  const int allowed = std::min(architecture.registers_per_thread,
                               architecture.registers_per_sm / (plan.threads() * plan.blocks_per_sm) / 8 * 8);
  const std::string moved = plan.attend_registers == 0
                                ? ""
                                : fmt::format(" ({} after those that copy have given theirs but {})",
                                              plan.attend_registers, plan.copy_registers);
  return {
      "blocks_per_sm", std::to_string(plan.blocks_per_sm),
      fmt::format(
          "{} bytes of shared memory each, and {} registers allowed per thread{} where the loop keeps about {} live",
          plan.shared_memory, allowed, moved, plan.counted_registers)};
}

/// What is asked for beside plain scores of all tokens.
void add_role_decisions(std::vector<Decision>& decisions, const GqaDecode& descriptor) {
  if (descriptor.soft_cap || descriptor.alibi || !descriptor.score.empty()) {
    std::string steps;
    const auto add = [&](bool asked, const std::string& step) {
      if (asked) steps += (steps.empty() ? "" : ", ") + step;
    };
    add(descriptor.soft_cap, "soft cap");
    add(descriptor.alibi, "ALiBi");
    add(!descriptor.score.empty(), descriptor.score);
    decisions.push_back({"score", steps, "in this order, between the scale and the mask"});
  }
  if (descriptor.alibi) {
    decisions.push_back({"order of tiles", "from the last to the first",
                         "scores rise from token to token: the softmax's reference would move with each tile"});
  }
  if (descriptor.window) {
    decisions.push_back(
        {"tokens", "a window, and those that are kept", "tiles begin at the window; what nobody sees is not read"});
  }
  if (descriptor.sinks) {
    decisions.push_back({"sinks", "one per head", "joins the denominator once all parts are merged"});
  }
}

Decision page_decision(const Plan& plan) {
  if (plan.family != "sm90") {
    return {
        "cache", "paged, looked up 32 tiles at a time",
        "a tile of 16 tokens lies in one page where pages are a multiple of that; else each lane finds one row of it, "
        "a tile ahead"};
  }
  return {"cache", "paged, looked up 32 boxes ahead",
          fmt::format("a box lies in one page: pages of a multiple of {} tokens are copied in boxes, smaller ones 16 "
                      "bytes per lane",
                      std::max(1, plan.chunk_tokens() / 32))};
}

}  // namespace

std::vector<Decision> decisions_of(const Plan& plan, const codegen::Architecture& architecture) {
  const GqaDecode& descriptor = plan.descriptor;
  std::vector<Decision> decisions = {tile_decision(plan, architecture),
                                     head_group_decision(plan),
                                     warp_decision(plan, architecture),
                                     copy_decision(plan),
                                     stage_decision(plan),
                                     stages_decision(plan),
                                     block_decision(plan, architecture),
                                     split_decision(plan)};
  const std::vector<Decision> operands = operand_decisions(plan, architecture);
  decisions.insert(decisions.begin() + 2, operands.begin(), operands.end());
  if (centres_nibbles(plan.descriptor)) decisions.push_back(middle_decision());
  if (plan.query_is_shared) decisions.push_back(shared_query_decision(plan));
  if (plan.merges_pairs()) {
    decisions.push_back({"two blocks of a sequence", "a cluster, where they have nothing else to do",
                         "each merges half of the channels, of which the other stores its sums in its shared "
                         "memory: no partial results, fence and counter in global memory"});
  }
  if (plan.staggers()) decisions.push_back(stagger_decision());
  if (plan.keeps_pace()) decisions.push_back(pace_decision(plan));
  if (plan.evicts_first()) {
    decisions.push_back({"lines of the cache", "the L2 lets go of them first",
                         "nobody reads them again: partial results, queries and page tables stay instead"});
  }
  if (plan.copies_unaligned_rows()) decisions.push_back(boxes_decision(plan));
  if (are_bound_by_arithmetic(plan)) decisions.push_back(arithmetic_decision(plan));
  if (plan.family == "sm90" && reads_row_scales(plan)) {
    decisions.push_back({"scales", "loaded into registers a stage ahead, by the warps that attend",
                         "a tensor of their own has other strides than rows, and no part in their boxes"});
  }
  if (plan.family == "sm80") decisions.push_back(offset_decision(plan));
  if (plan.recomputes_lanes) {
    decisions.push_back({"lanes", "what follows from them, such as addresses, is computed at each use",
                         "of many groups the compilers of later architectures would keep more of it than there are "
                         "registers for, and spill"});
  }
  if (plan.family == "sm75") decisions.push_back(held_decision(plan));
  if (descriptor.query_tokens > 1) decisions.push_back(query_decision(descriptor));
  if (descriptor.cache == KvAddressing::paged) decisions.push_back(page_decision(plan));
  add_role_decisions(decisions, descriptor);
  return decisions;
}

}  // namespace cubit::ops::gqa_decode
