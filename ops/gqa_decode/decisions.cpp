// Decisions of a plan that all kernel families of gqa_decode make, each with its reason, as `cubit explain` prints
// them.
#include <fmt/format.h>

#include <algorithm>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/gqa_decode/report.hpp"
#include "ops/text.hpp"

namespace cubit::ops::gqa_decode {
namespace {

Decision query_decision(const GqaDecode& descriptor) {
  return {
      "query_tokens", fmt::format("{}, {}", descriptor.query_tokens, text_of(descriptor.mask)),
      fmt::format("{} x {} query rows of a KV head; only tiles that end behind the first query token's position are "
                  "masked",
                  descriptor.query_tokens, descriptor.heads_per_kv)};
}

/// Rows of keys are multiplied by the query, rows of values by the softmax weights.
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

}  // namespace

std::string swizzle_text(const codegen::Swizzle& swizzle) {
  if (swizzle.bits == 0) return "no swizzle";
  return fmt::format("swizzle of {} bits, from bit {} onto bit {}", swizzle.bits, swizzle.shift_from, swizzle.base);
}

Decision tile_decision(const CommonPlan& plan, const codegen::Architecture& architecture) {
  return {"tile", fmt::format("16 tokens x {} heads", 8 * plan.head_tiles()),
          fmt::format("tokens are the M of mma.m16n8k16{} and query rows its N: one tile per 8 query rows of a block",
                      architecture.has_mma({16, 8, 16, codegen::MmaType::fp16}) ? "" : " (two m16n8k8 here)")};
}

std::string register_limit(const CommonPlan& plan) {
  return fmt::format("registers hold no more heads at head_dim={}", plan.descriptor.head_dim);
}

Decision head_group_decision(const CommonPlan& plan, const std::string& holder, const std::string& limit) {
  const int heads = plan.heads();
  if (plan.head_groups == 1) {
    return {"head_groups", "1",
            fmt::format("{} fit{} the registers of one block{}: the cache is read once", counted(heads, "head"),
                        heads == 1 ? "s" : "", holder)};
  }
  return {
      "head_groups", fmt::format("{} of up to {} heads", plan.head_groups, plan.heads_per_block),
      fmt::format("{}; the block of every group reads the cache, at best from the L2 except for the first block, so "
                  "that {} times the bytes cross the L2",
                  limit, plan.head_groups)};
}

std::vector<Decision> operand_decisions(const CommonPlan& plan, const codegen::Architecture& architecture) {
  const kv_cache::CacheFormats formats = plan.formats();
  const Element query = plan.descriptor.query;
  if (formats.are_alike()) return {operand_decision({"operands", true, true}, formats.key, query, architecture)};
  return {operand_decision({"operands of keys", true, false}, formats.key, query, architecture),
          operand_decision({"operands of values", false, true}, formats.value, query, architecture)};
}

void add_middle_decision(std::vector<Decision>& decisions, const GqaDecode& descriptor) {
  if (!centres_nibbles(descriptor)) return;
  decisions.push_back(
      {"centre of nibbles", "7.5 x scale, part of the shift",
       "products of weights and scales are rounded to fp16; with nibbles, which have no sign, the error is two to "
       "three "
       "times as large as with centred values, and outputs of fp16 show the error; the cost is one more product per "
       "group"});
}

Decision stages_decision(const CommonPlan& plan, int ring_bytes, const std::string& purpose, int wanted_bytes) {
  return {"stages", std::to_string(plan.stages),
          fmt::format("{} KiB {} per SM ({} wanted) at {}", plan.blocks_per_sm * ring_bytes / 1024, purpose,
                      wanted_bytes / 1024, counted(plan.blocks_per_sm, "block"))};
}

Decision block_decision(const CommonPlan& plan, int threads, const codegen::Architecture& architecture,
                        const std::string& moved) {
  const int allowed = std::min(architecture.registers_per_thread,
                               architecture.registers_per_sm / (threads * plan.blocks_per_sm) / 8 * 8);
  return {
      "blocks_per_sm", std::to_string(plan.blocks_per_sm),
      fmt::format(
          "{} bytes of shared memory each, and {} registers allowed per thread{} where the loop keeps about {} live",
          plan.shared_memory, allowed, moved, plan.counted_registers)};
}

Decision lane_decision() {
  return {
      "lanes", "addresses and other values that follow from the lane are computed at each use",
      "with many groups the compilers for later architectures would keep more of these values than there are registers "
      "for, and spill"};
}

void add_role_decisions(std::vector<Decision>& decisions, const GqaDecode& descriptor, const Decision& page) {
  if (descriptor.query_tokens > 1) decisions.push_back(query_decision(descriptor));
  if (descriptor.cache == KvAddressing::paged) decisions.push_back(page);
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
                         "scores rise from token to token, so the reference of the softmax would move with each tile"});
  }
  if (descriptor.window) {
    decisions.push_back({"tokens", "a window and the kept tokens",
                         "tiles begin at the window; tokens that no query sees are not read"});
  }
  if (descriptor.sinks) {
    decisions.push_back(
        {"sinks", "one per head", "the sink joins the denominator after all partial results are merged"});
  }
}

}  // namespace cubit::ops::gqa_decode
