// The plan header of the families whose warps have a ring each, for the template kernels/attention/sm80_gqa_decode.cuh.
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/gqa_decode/warp_ring/warp_ring.hpp"

namespace cubit::ops::gqa_decode::warp_ring {
namespace {

/// Layouts, and the roles of keys, values and their stage.
void add_formats(codegen::PlanHeader& header, const Plan& plan, bool query_is_shared) {
  const kv_cache::CacheFormats formats = plan.formats();
  RowOptions options{.query_is_shared = query_is_shared, .recomputes_lanes = plan.recomputes_lanes};
  if (formats.are_alike()) {
    options.centres_nibbles = centres_nibbles(plan.descriptor);
    header.layout("kv_stage", plan.stage)
        .alias("Keys", format_type(formats.key, "kHeadDim", "kv_stage", options))
        .alias("Values", "Keys")
        .alias("Stage", "cubit::StageOfOneFormat<Keys, kCopyBytes, kv_stage>");
    return;
  }
  header.layout("key_stage", plan.stage)
      .layout("value_stage", plan.value_stage)
      .alias("Keys", format_type(formats.key, "kHeadDim", "key_stage", options))
      .alias("Values", format_type(formats.value, "kValueDim", "cubit::place_of_value<value_stage, kKeyStageBytes>",
                                   {.centres_nibbles = centres_nibbles(plan.descriptor),
                                    .recomputes_lanes = plan.recomputes_lanes}))
      .alias("Stage",
             "cubit::StageOfTwoFormats<Keys, Values, kCopyBytes, key_stage, "
             "cubit::place_of_value<value_stage, kKeyStageBytes>>");
}

}  // namespace

codegen::KernelSource make_source(const Plan& plan, const CopyRole& role, const codegen::Architecture& architecture) {
  const GqaDecode& descriptor = plan.descriptor;
  const kv_cache::CacheFormats formats = plan.formats();
  codegen::PlanHeader header(descriptor.text());
  include_formats(header, format_header(formats.key), format_header(formats.value));
  header.include("kv_format/kv_stage.cuh");
  include_cache(header, descriptor);
  header.include(role.header);
  const std::vector<codegen::Header> users = include_roles(header, descriptor);
  add_constants(header, plan, {.stage_bytes = plan.stage_bytes()});
  header.constant("kCopyBytes", plan.copy_bytes)
      .flag("kKeepOffsets", role.keep_offsets)
      .constant("kSlotPeriod", plan.slot_period)
      .constant("kQueryAt", role.query_at)
      .constant("kQueryBytes", role.query_bytes)
      .constant("kPartialsAtOnce", role.partials_at_once)
      .alias("TileCopies", role.type);
  alias_types(header, descriptor, architecture);
  add_formats(header, plan, role.query_is_shared);
  alias_roles(header, descriptor);
  return assemble(header, plan, {.kernel = "kernels/attention/sm80_gqa_decode.cuh", .threads = plan.threads()},
                  architecture, users);
}

}  // namespace cubit::ops::gqa_decode::warp_ring
