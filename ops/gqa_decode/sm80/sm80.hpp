// Kernel family sm80: warps copy with cp.async, each into a ring of its own.
//
// The family serves every descriptor on sm_80 and later. If query operands of all tiles do not fit registers, they move
// to shared memory, so that one block computes more query rows of a KV head and fewer blocks read the cache.
#pragma once

#include "ops/gqa_decode/family.hpp"
#include "ops/gqa_decode/warp_ring/warp_ring.hpp"

namespace cubit::ops::gqa_decode::sm80 {

struct Plan : warp_ring::Plan {
  bool query_is_shared = false;  ///< query operands are in shared memory, behind the rings; else in registers
  bool keep_offsets = true;  ///< a lane keeps its copies' offsets in a tile in registers; else it computes them anew

  int query_bytes() const;  ///< query operands in shared memory; 0: they are in registers
  /// Other blocks' partial results that the last block of a sequence loads into shared memory at a time, a power of
  /// two; 0: they are loaded into registers, because lanes of a warp have several query rows.
  int partials_at_once() const;
};

/// `report`: see KernelFamily::plan.
Plan make_plan(const GqaDecode& descriptor, const codegen::Architecture& architecture, PlanReport report = {});
codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture);

/// The name of the accesses that write a stage.
inline constexpr const char* kCopies = "cp.async of rows";
/// Query operands in shared memory; none if they are in registers.
std::vector<Tile> query_tiles(const Plan& plan);
/// Other blocks' partial results in the last block of a sequence: see Plan::partials_at_once().
std::vector<Tile> partial_tiles(const Plan& plan);
std::vector<Decision> decisions_of(const Plan& plan, const codegen::Architecture& architecture);

const Family& family();

}  // namespace cubit::ops::gqa_decode::sm80
