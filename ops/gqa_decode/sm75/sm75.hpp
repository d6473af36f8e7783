// Kernel family sm75: warps copy with loads and stores, and a part of the next tile waits in registers.
//
// sm_75 has no cp.async. A warp loads vectors of the next tile into registers while it computes the current tile, and
// stores them to shared memory afterwards. The tensor cores of sm_75 multiply fp16 alone, so the family serves no bf16.
#pragma once

#include "ops/gqa_decode/family.hpp"
#include "ops/gqa_decode/warp_ring/warp_ring.hpp"

namespace cubit::ops::gqa_decode::sm75 {

struct Plan : warp_ring::Plan {
  int held_vectors = 0;  ///< vector copies of the next tile that a lane holds in registers; it copies the rest at once
};

/// `report`: see KernelFamily::plan.
Plan make_plan(const GqaDecode& descriptor, const codegen::Architecture& architecture, PlanReport report = {});
codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture);

const Family& family();

}  // namespace cubit::ops::gqa_decode::sm75
