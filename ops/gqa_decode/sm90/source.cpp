// The plan header of kernel family sm90, for the template kernels/attention/sm90_gqa_decode.cuh.
#include <fmt/format.h>

#include "codegen/plan_header.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/gqa_decode/sm90/sm90.hpp"
#include "ops/gqa_decode/source.hpp"

namespace cubit::ops::gqa_decode::sm90 {
namespace {

/// The role of rows that warpgroup MMAs read.
std::string format_type_by_heads(const kv_cache::RowFormat& format, std::string_view place) {
  return fmt::format("cubit::Rows16ByHeads<Query, {}, kHeadDim, kHeadsPerWarp, 16 * kTilesPerStage, {}>",
                     device_type(format.element()), place);
}

/// The function that finds the bytes of a warp's rows in the stage.
const char* place_function(const Plan& plan) {
  return plan.copies_unaligned_rows()
             ? "cubit::place_in_own_rows<kv_stage, kKvRowBytes, kStageBytes / 2, kQueryGroups, kInterleavedWarps, "
               "16 * kTilesPerStage>"
             : "cubit::place_in_own_row<kv_stage, kKvRowBytes, kStageBytes / 2, kQueryGroups>";
}

/// The layout of a stage, and the roles of keys and values, which have one format.
void add_formats(codegen::PlanHeader& header, const Plan& plan) {
  const kv_cache::RowFormat format = plan.formats().key;
  const char* const place = place_function(plan);
  RowOptions options{.centres_nibbles = centres_nibbles(plan.descriptor), .recomputes_lanes = plan.recomputes_lanes};
  if (plan.copies_unaligned_rows()) {
    options.begin_between =
        fmt::format("cubit::bytes_before_own_rows<{}, kQueryGroups, kInterleavedWarps>", format.header_bytes());
  }
  header.layout("kv_stage", plan.stage)
      .constant("kKvRowBytes", format.row_bytes())
      .flag("kRowsInParts", plan.stage.part_bytes != 0)
      .alias("Keys",
             plan.heads_are_m ? format_type_by_heads(format, place) : format_type(format, "kHeadDim", place, options))
      .alias("Values", "Keys");
}

/// The constants of the pipeline and of the schedule.
void add_pipeline_constants(codegen::PlanHeader& header, const Plan& plan) {
  header.constant("kResultsAt", plan.results_at(plan.stages))
      .constant("kBarriersAt", plan.barriers_at(plan.stages))
      .constant("kScratchAt", plan.scratch_at(plan.stages))
      .constant("kScratchBytes", plan.scratch_bytes())
      .constant("kProducerWarps", plan.producer_warps)
      .constant("kInterleavedWarps", plan.interleaved_warps())
      .constant("kVectorBytes", plan.copy_bytes)
      .constant("kProducerRegisters", plan.producer_registers)
      .constant("kConsumerRegisters", plan.consumer_registers)
      .flag("kEvictsFirst", plan.evicts_first())
      .flag("kMergesInCluster", plan.merges_in_cluster())
      .flag("kOffsetsStart", plan.offsets_start())
      .constant("kInitialStages", plan.paces_copies() ? plan.initial_stages() : 0)
      .constant("kSegments", Plan::kSegments)
      .constant("kSegmentEndStages", plan.segment_end_stages())
      .constant("kSequenceOverheadStages", plan.sequence_overhead_stages());
}

}  // namespace

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture) {
  const GqaDecode& descriptor = plan.descriptor;
  const std::string_view format =
      plan.heads_are_m ? "kv_format/kv_rows16_by_heads.cuh" : format_header(plan.formats().key);
  codegen::PlanHeader header(descriptor.text());
  include_formats(header, format, format);
  include_cache(header, descriptor);
  header.include("kv_format/warp_rows.cuh");
  const std::vector<codegen::Header> users = include_roles(header, descriptor);
  add_constants(
      header, plan,
      {.heads_are_m = plan.heads_are_m, .tiles_per_stage = plan.tiles_per_stage, .stage_bytes = plan.stage_bytes()});
  add_pipeline_constants(header, plan);
  alias_types(header, descriptor, architecture);
  add_formats(header, plan);
  alias_roles(header, descriptor);
  return assemble(header, plan,
                  {.kernel = "kernels/attention/sm90_gqa_decode.cuh",
                   .threads = plan.threads(),
                   .cluster_blocks = plan.merges_in_cluster() ? 2 : 1},
                  architecture, users);
}

}  // namespace cubit::ops::gqa_decode::sm90
