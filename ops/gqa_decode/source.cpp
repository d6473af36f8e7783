// From a plan to the kernel's text: constants, layouts and the roles that the template's parts play.
#include <fmt/format.h>

#include <utility>

#include "codegen/plan_header.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/user_code.hpp"
#include "templates/embedded.hpp"

namespace cubit::ops::gqa_decode {
namespace {

/// The role headers of scores, tokens and sinks. Returns what the library does not have: the user's, which the role
/// that calls it comes after.
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

/// Behind the alias Keys.
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

/// The role of query_tokens.cuh.
std::string queries_type(const GqaDecode& descriptor) {
  if (descriptor.query_tokens == 1) return "cubit::OneQueryToken<kHeadsPerKv>";
  const bool tree = descriptor.mask == QueryMask::tree;
  return fmt::format("cubit::{}QueryTokens<kQueryTokens, kHeadsPerKv>", tree ? "Tree" : "Causal");
}

/// E4m3 is the plan header's own name for what the architecture can do.
std::string_view operand_type(KvFormat kv) {
  if (kv == KvFormat::int8_split) return "cubit::Int8Operand";
  return kv == KvFormat::fp8_e4m3 ? "E4m3" : "cubit::E5m2Operand";
}

std::string_view format_header(const kv_cache::RowFormat& format, bool heads_are_rows) {
  if (heads_are_rows) return "kv_format/kv_rows16_by_heads.cuh";
  if (format.kv == KvFormat::int4_rows) return "kv_format/kv_int4_rows.cuh";
  return format.has_scales() ? "kv_format/kv_bytes.cuh" : "kv_format/kv_rows16.cuh";
}

/// Where a warpgroup makes products whose rows are heads.
std::string format_type_by_heads(const kv_cache::RowFormat& format, std::string_view place) {
  return fmt::format("cubit::Rows16ByHeads<Query, {}, kHeadDim, kHeadsPerWarp, 16 * kTilesPerStage, {}>",
                     device_type(format.element()), place);
}

/// What the plan decides of a role's rows. `query_is_shared`: of keys. The others: of int4_rows.
struct RowOptions {
  bool query_is_shared = false;
  bool begin_between = false;
  bool centred = false;  ///< of values
  bool recomputes_lanes = false;
};

std::string int4_rows_type(const kv_cache::RowFormat& format, std::string_view channels, std::string_view place,
                           const RowOptions& options) {
  // Up to the last that is no default.
  std::string last;
  std::string not_yet;
  const auto add = [&](bool is_chosen, std::string_view value, std::string_view by_default) {
    not_yet += fmt::format(", {}", is_chosen ? value : by_default);
    if (is_chosen) last += std::exchange(not_yet, {});
  };
  add(options.query_is_shared, "true", "false");
  add(options.begin_between,
      fmt::format("cubit::bytes_before_own_rows<{}, kColumnGroups, kWarpsAbreast>", format.header_bytes()), "nullptr");
  add(options.centred, "true", "false");
  add(options.recomputes_lanes, "true", "false");
  return fmt::format("cubit::Int4Rows<Query, {}, {}, kHeadsPerWarp, kAlignment, {}{}>", channels, format.groups, place,
                     last);
}

/// The role of keys or of values: of `channels`, which is a constant of the plan, in rows whose bytes are found by
/// `place`.
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

/// Layouts, and the roles of keys, values and their stage.
void add_formats(codegen::PlanHeader& header, const Plan& plan) {
  const kv_cache::CacheFormats formats = plan.formats();
  if (!formats.are_alike()) {
    header.layout("key_stage", plan.stage)
        .layout("value_stage", plan.value_stage)
        .alias("Keys",
               format_type(formats.key, "kHeadDim", "key_stage",
                           {.query_is_shared = plan.query_is_shared, .recomputes_lanes = plan.recomputes_lanes}))
        .alias("Values",
               format_type(formats.value, "kValueDim", "cubit::place_of_value<value_stage, kKeyStageBytes>",
                           {.centred = centres_nibbles(plan.descriptor), .recomputes_lanes = plan.recomputes_lanes}))
        .alias("Stage",
               "cubit::StageOfTwoFormats<Keys, Values, kCopyBytes, key_stage, "
               "cubit::place_of_value<value_stage, kKeyStageBytes>>");
    return;
  }
  header.layout("kv_stage", plan.stage);
  // Where the bytes of a warp's rows are.
  std::string_view place = "kv_stage";
  if (plan.family == "sm90") {
    header.constant("kKvRowBytes", formats.key.row_bytes()).flag("kRowsInParts", plan.stage.part_bytes != 0);
    place = plan.copies_unaligned_rows()
                ? "cubit::place_in_own_rows<kv_stage, kKvRowBytes, kStageBytes / 2, kColumnGroups, kWarpsAbreast, "
                  "16 * kTilesPerStage>"
                : "cubit::place_in_own_row<kv_stage, kKvRowBytes, kStageBytes / 2, kColumnGroups>";
  }
  header
      .alias("Keys", plan.heads_are_rows ? format_type_by_heads(formats.key, place)
                                         : format_type(formats.key, "kHeadDim", place,
                                                       {.query_is_shared = plan.query_is_shared,
                                                        .begin_between = plan.copies_unaligned_rows(),
                                                        .centred = centres_nibbles(plan.descriptor),
                                                        .recomputes_lanes = plan.recomputes_lanes}))
      .alias("Values", "Keys");
  if (plan.family != "sm90") header.alias("Stage", "cubit::StageOfOneFormat<Keys, kCopyBytes, kv_stage>");
}

/// The role headers of formats, cache and copies.
void include_formats(codegen::PlanHeader& header, const Plan& plan) {
  const kv_cache::CacheFormats formats = plan.formats();
  const std::string_view of_keys = format_header(formats.key, plan.heads_are_rows);
  const std::string_view of_values = format_header(formats.value, plan.heads_are_rows);
  header.include(of_keys);
  if (of_values != of_keys) header.include(of_values);
  if (plan.family != "sm90") header.include("kv_format/kv_stage.cuh");
  header
      .include(plan.descriptor.cache == KvAddressing::paged ? "kv_format/kv_paged.cuh" : "kv_format/kv_contiguous.cuh")
      .include("attention/query_tokens.cuh")
      .include("core/types.cuh");
  header.include(plan.family == "sm90"   ? "kv_format/warp_rows.cuh"
                 : plan.family == "sm75" ? "pipeline/tile_copies_registers.cuh"
                                         : "pipeline/tile_copies_async.cuh");
}

void add_constants(codegen::PlanHeader& header, const Plan& plan) {
  const GqaDecode& descriptor = plan.descriptor;
  header.constant("kHeadDim", descriptor.head_dim)
      .constant("kValueDim", plan.formats().value.head_dim)
      .constant("kHeadsPerKv", descriptor.heads_per_kv)
      .constant("kQueryTokens", descriptor.query_tokens)
      .constant("kHeadGroups", plan.head_groups)
      .constant("kHeadsPerBlock", plan.heads_per_block)
      .constant("kColumnGroups", plan.column_groups)
      .constant("kHeadsPerWarp", plan.heads_per_warp())
      .flag("kHeadsAreRows", plan.heads_are_rows)
      .constant("kAlignment", descriptor.alignment)
      .flag("kRecomputesLanes", plan.recomputes_lanes)
      .constant("kWarps", plan.warps)
      .constant("kTilesPerStage", plan.tiles_per_stage)
      .constant("kTileBytes", 16 * plan.stage.pitch)
      .constant("kStageBytes", plan.stage_bytes())
      .constant("kStages", plan.stages)
      .constant("kBlocksPerSm", plan.blocks_per_sm);
}

/// Family sm90.
void add_constants_of_boxes(codegen::PlanHeader& header, const Plan& plan) {
  header.constant("kResultsAt", plan.results_at(plan.stages))
      .constant("kBarriersAt", plan.barriers_at(plan.stages))
      .constant("kScratchAt", plan.scratch_at(plan.stages))
      .constant("kScratchBytes", plan.scratch_bytes())
      .constant("kCopyWarps", plan.copy_warps)
      .constant("kWarpsAbreast", plan.warps_abreast())
      .constant("kPieceBytes", plan.copy_bytes)
      .constant("kCopyRegisters", plan.copy_registers)
      .constant("kAttendRegisters", plan.attend_registers)
      .flag("kEvictsFirst", plan.evicts_first())
      .flag("kMergesPairs", plan.merges_pairs())
      .flag("kStaggers", plan.staggers())
      .constant("kStagesAtOnce", plan.keeps_pace() ? plan.stages_at_once() : 0)
      .constant("kSegments", Plan::kSegments)
      .constant("kFlushStages", plan.flush_stages())
      .constant("kGapStages", plan.gap_stages());
}

/// Families sm75 and sm80.
void add_constants_of_copies(codegen::PlanHeader& header, const Plan& plan) {
  header.constant("kCopyBytes", plan.copy_bytes)
      .flag("kKeepOffsets", plan.keep_offsets)
      .constant("kSlotPeriod", plan.slot_period)
      .constant("kQueryAt", plan.query_is_shared ? plan.query_at(plan.stages) : 0)
      .constant("kQueryBytes", plan.query_bytes())
      .constant("kPartsAtOnce", plan.parts_at_once())
      .alias("TileCopies", plan.family == "sm75"
                               ? fmt::format("cubit::HeldTileCopies<kCopyBytes, kStages, {}>", plan.held_pieces)
                               : "cubit::AsyncTileCopies<kCopyBytes, kStages>");
}

void alias_types(codegen::PlanHeader& header, const Plan& plan, const codegen::Architecture& architecture) {
  const GqaDecode& descriptor = plan.descriptor;
  if (descriptor.kv == KvFormat::fp8_e4m3 || plan.formats().value.kv == KvFormat::fp8_e4m3)
    header.alias("E4m3", architecture.fp8_conversion ? "cubit::ConvertedE4m3Operand" : "cubit::E4m3Operand");
  header.flag("kOverlaps", architecture.kernel_overlap)
      .alias("Query", device_type(descriptor.query))
      .alias("Output", device_type(descriptor.output))
      .alias("Cache", descriptor.cache == KvAddressing::paged ? "cubit::PagedCache" : "cubit::ContiguousCache")
      .alias("Queries", queries_type(descriptor));
}

}  // namespace

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture) {
  const GqaDecode& descriptor = plan.descriptor;
  codegen::PlanHeader header(descriptor.text());
  include_formats(header, plan);
  const std::vector<codegen::Header> users = include_roles(header, descriptor);
  add_constants(header, plan);
  if (plan.family == "sm90") {
    add_constants_of_boxes(header, plan);
  } else {
    add_constants_of_copies(header, plan);
  }
  alias_types(header, plan, architecture);
  add_formats(header, plan);
  alias_roles(header, descriptor);
  return codegen::assemble(
      descriptor.text(), templates::find(kernel_of(plan.family)), header.text(), architecture, "gqa_decode",
      {.threads = plan.threads(),
       .dynamic_shared_memory = plan.shared_memory,
       .cluster_blocks = plan.merges_pairs() ? 2 : 1,
       .waits_for_previous = architecture.kernel_overlap,
       .shared_memory_limit = architecture.kernel_overlap ? architecture.shared_memory_per_block : 0},
      templates::embedded(), users);
}

}  // namespace cubit::ops::gqa_decode
