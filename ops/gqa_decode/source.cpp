// The parts of a plan header that all kernel families of gqa_decode write: role headers, types and constants.
#include "ops/gqa_decode/source.hpp"

#include <fmt/format.h>

#include <utility>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/user_code.hpp"
#include "templates/embedded.hpp"

namespace cubit::ops::gqa_decode {
namespace {

/// The role that says which query token a query row belongs to: query_tokens.cuh.
std::string queries_type(const GqaDecode& descriptor) {
  if (descriptor.query_tokens == 1) return "cubit::OneQueryToken<kHeadsPerKv>";
  const bool tree = descriptor.mask == QueryMask::tree;
  return fmt::format("cubit::{}QueryTokens<kQueryTokens, kHeadsPerKv>", tree ? "Tree" : "Causal");
}

/// The role that makes operands of bytes. E4m3 is an alias in the plan header, which depends on the architecture.
std::string_view operand_type(KvFormat kv) {
  if (kv == KvFormat::int8_split) return "cubit::Int8Operand";
  return kv == KvFormat::fp8_e4m3 ? "E4m3" : "cubit::E5m2Operand";
}

std::string int4_rows_type(const kv_cache::RowFormat& format, std::string_view channels, std::string_view place,
                           const RowOptions& options) {
  // Template arguments up to the last one that is not at its default.
  std::string last;
  std::string not_yet;
  const auto add = [&](bool is_chosen, std::string_view value, std::string_view otherwise) {
    not_yet += fmt::format(", {}", is_chosen ? value : otherwise);
    if (is_chosen) last += std::exchange(not_yet, {});
  };
  add(options.query_is_shared, "true", "false");
  add(!options.begin_between.empty(), options.begin_between, "nullptr");
  add(options.centres_nibbles, "true", "false");
  add(options.recomputes_lanes, "true", "false");
  return fmt::format("cubit::Int4Rows<Query, {}, {}, kHeadsPerWarp, kAlignment, {}{}>", channels, format.groups, place,
                     last);
}

}  // namespace

std::string_view format_header(const kv_cache::RowFormat& format) {
  if (format.kv == KvFormat::int4_rows) return "kv_format/kv_int4_rows.cuh";
  return format.has_scales() ? "kv_format/kv_bytes.cuh" : "kv_format/kv_rows16.cuh";
}

std::string format_type(const kv_cache::RowFormat& format, std::string_view channels, std::string_view place,
                        const RowOptions& options) {
  if (format.kv == KvFormat::int4_rows) return int4_rows_type(format, channels, place, options);
  const std::string_view query = options.query_is_shared ? ", true" : "";
  if (!format.has_scales()) {
    return fmt::format("cubit::Rows16<Query, {}, {}, kHeadsPerWarp, {}{}>", device_type(format.element()), channels,
                       place, query);
  }
  const int groups = format.scales == KvScales::tensor ? 0 : format.groups;
  return fmt::format("cubit::RowsOfBytes<Query, {}, {}, {}, {}, kHeadsPerWarp, kAlignment, {}{}>",
                     operand_type(format.kv), format.scale_type == ScaleType::fp32 ? "float" : "cubit::Half", channels,
                     groups, place, query);
}

std::vector<codegen::Header> include_roles(codegen::PlanHeader& header, const GqaDecode& descriptor) {
  std::vector<codegen::Header> users;
  if (descriptor.soft_cap) header.include("attention/score_soft_cap.cuh");
  if (descriptor.alibi) header.include("attention/score_alibi.cuh");
  header.include("attention/score_steps.cuh");
  if (!descriptor.score.empty()) {
    users.push_back(find_user_code(descriptor.score));
    header.include(users.back().name).include("attention/score_user.cuh");
  }
  header.include(descriptor.window ? "attention/tokens_window.cuh" : "attention/tokens_all.cuh");
  header.include(descriptor.sinks ? "attention/sink_learned.cuh" : "attention/sink_none.cuh");
  return users;
}

void alias_roles(codegen::PlanHeader& header, const GqaDecode& descriptor) {
  std::string steps;
  const auto add = [&](bool asked, const char* step) {
    if (asked) steps += (steps.empty() ? "" : ", ") + std::string(step);
  };
  add(descriptor.soft_cap, "cubit::SoftCap");
  add(descriptor.alibi, "cubit::Alibi<Keys::Layout>");
  add(!descriptor.score.empty(), "cubit::UserScore");
  header.alias("Score", fmt::format("cubit::ScoreSteps<{}>", steps))
      .alias("Tokens", descriptor.window ? "cubit::WindowOfTokens" : "cubit::AllTokens")
      .alias("Sink", descriptor.sinks ? "cubit::LearnedSink" : "cubit::NoSink");
}

void include_formats(codegen::PlanHeader& header, std::string_view of_keys, std::string_view of_values) {
  header.include(of_keys);
  if (of_values != of_keys) header.include(of_values);
}

void include_cache(codegen::PlanHeader& header, const GqaDecode& descriptor) {
  header.include(descriptor.cache == KvAddressing::paged ? "kv_format/kv_paged.cuh" : "kv_format/kv_contiguous.cuh")
      .include("attention/query_tokens.cuh")
      .include("core/types.cuh");
}

void add_constants(codegen::PlanHeader& header, const CommonPlan& plan, const BlockShape& shape) {
  const GqaDecode& descriptor = plan.descriptor;
  header.constant("kHeadDim", descriptor.head_dim)
      .constant("kValueDim", plan.formats().value.head_dim)
      .constant("kHeadsPerKv", descriptor.heads_per_kv)
      .constant("kQueryTokens", descriptor.query_tokens)
      .constant("kHeadGroups", plan.head_groups)
      .constant("kHeadsPerBlock", plan.heads_per_block)
      .constant("kQueryGroups", plan.heads_per_block / plan.heads_per_warp)
      .constant("kHeadsPerWarp", plan.heads_per_warp)
      .flag("kHeadsAreM", shape.heads_are_m)
      .constant("kAlignment", descriptor.alignment_bytes())
      .flag("kRecomputesLanes", plan.recomputes_lanes)
      .constant("kWarps", plan.warps)
      .constant("kTilesPerStage", shape.tiles_per_stage)
      .constant("kTileBytes", 16 * plan.stage.pitch)
      .constant("kStageBytes", shape.stage_bytes)
      .constant("kStages", plan.stages)
      .constant("kBlocksPerSm", plan.blocks_per_sm);
}

void alias_types(codegen::PlanHeader& header, const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  if (descriptor.kv == KvFormat::fp8_e4m3 || kv_cache::formats_of(descriptor).value.kv == KvFormat::fp8_e4m3)
    header.alias("E4m3", architecture.fp8_conversion ? "cubit::ConvertedE4m3Operand" : "cubit::E4m3Operand");
  header.flag("kOverlaps", architecture.kernel_overlap)
      .alias("Query", device_type(descriptor.query))
      .alias("Output", device_type(descriptor.output))
      .alias("Cache", descriptor.cache == KvAddressing::paged ? "cubit::PagedCache" : "cubit::ContiguousCache")
      .alias("Queries", queries_type(descriptor));
}

codegen::KernelSource assemble(const codegen::PlanHeader& header, const CommonPlan& plan, const SourceFacts& facts,
                               const codegen::Architecture& architecture, std::span<const codegen::Header> users) {
  return codegen::assemble(
      plan.descriptor.text(), templates::find(facts.kernel), header.text(), architecture, "gqa_decode",
      {.threads = facts.threads,
       .dynamic_shared_memory = plan.shared_memory,
       .cluster_blocks = facts.cluster_blocks,
       .waits_for_previous = architecture.kernel_overlap,
       .shared_memory_limit = architecture.kernel_overlap ? architecture.shared_memory_per_block : 0},
      templates::embedded(), users);
}

}  // namespace cubit::ops::gqa_decode
