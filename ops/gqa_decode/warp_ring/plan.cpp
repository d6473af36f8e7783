// Planning steps of the families whose warps have a ring each: layouts of a stage, stages, warps, shared memory.
#include <algorithm>

#include "ops/gqa_decode/warp_ring/warp_ring.hpp"
#include "ops/ring.hpp"

namespace cubit::ops::gqa_decode::warp_ring {

int shared_memory_for(const Plan& plan, int stages, int query_bytes) {
  const int merged = merge_bytes(plan, plan.warps, merge_pitch(plan, false));
  const int end = std::max(plan.ring_bytes(stages) + query_bytes, merged);
  return (end + 15) / 16 * 16;
}

void choose_layouts(Plan& plan, const char* copies) {
  const kv_cache::CacheFormats formats = plan.formats();
  const auto search = [](int rows, const kv_cache::RowFormat& format, std::span<const codegen::TileAccess> accesses) {
    return codegen::search_layout(rows, stage_row_bytes(format), 16, accesses);
  };
  plan.stage = search(formats.are_alike() ? 32 : 16, formats.key, stage_accesses(plan, copies));
  if (!formats.are_alike()) plan.value_stage = search(16, formats.value, value_stage_accesses(plan, copies));
  plan.slot_period = find_slot_period(plan);
}

void choose_stages(Plan& plan, const codegen::Architecture& architecture, int fewest, int most, int query_bytes) {
  for (const int warps : {4, 2}) {
    plan.warps = warps;
    const Ring ring = choose_ring(
        fewest, most, warps * plan.stage_bytes(), kBytesInFlight,
        [&](int stages) { return shared_memory_for(plan, stages, query_bytes); },
        [&](int shared) { return resident_blocks(architecture, plan.threads(), plan.counted_registers, shared); });
    plan.stages = ring.stages;
    plan.blocks_per_sm = ring.blocks_per_sm;
    plan.shared_memory = ring.shared_memory;
    if (plan.stages > 0) return;
  }
}

}  // namespace cubit::ops::gqa_decode::warp_ring
