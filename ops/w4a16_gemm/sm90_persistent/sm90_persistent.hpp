// Kernel family sm90_persistent of w4a16_gemm: for many rows, and for dense weights. Clusters of two blocks compute
// tiles of 256 columns and 64 to 256 rows (dense weights: 16 to 256 rows) until none is left. One producer warp fills a
// ring of stages with TMA box copies. Two consumer warpgroups dequantise weights into the register operand of wgmma, or
// let wgmma read dense weights from shared memory.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "codegen/tile_layout.hpp"
#include "ops/operator.hpp"
#include "ops/w4a16_gemm/launch.hpp"
#include "ops/w4a16_gemm/plan.hpp"
#include "templates/gemm/persistent_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm::sm90_persistent {

inline constexpr int kWarpgroups = 2;  ///< of consumers
inline constexpr int kClusterBlocks = 2;
inline constexpr int kProducerRegisters = 40;  ///< per thread; the 384 threads begin with 168 each
inline constexpr int kConsumerRegisters = 232;
// A warpgroup that asks for more registers than the block began with waits for them forever.
static_assert(kWarpgroups * kConsumerRegisters + kProducerRegisters <= (kWarpgroups + 1) * 168);

/// The plan of templates/kernels/sm90_persistent_gemm.cuh.
struct Plan {
  BlockPlan block;
  int store_rows = 0;            ///< rows of the output that a staging tile has
  codegen::TileLayout staging;   ///< of one staging tile: the outputs of a warpgroup
  codegen::TileLayout exchange;  ///< sums that one warpgroup gives away when a cluster splits k
  PlanReport report;

  int activation_bytes() const { return block.tiles.activations.size(); }  ///< of a stage
  int stage_bytes() const { return activation_bytes() + block.tiles.words.size(); }
  int staging_at(int stages) const { return stages * stage_bytes(); }
  int staging_bytes() const { return 2 * kWarpgroups * staging.size(); }
  int barriers_at(int stages) const { return staging_at(stages) + staging_bytes(); }
  int shared_memory(int stages) const;
};

Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);

/// Consumer warps load the words of a stage one stage before they dequantise them. With 256 rows the accumulators leave
/// no registers for that, and the products take longer than all else. Dense weights have no words.
bool loads_words_ahead(const W4a16Gemm& descriptor);

/// The loads of packed weights; none of dense weights, which wgmma reads.
std::vector<codegen::TileAccess> word_accesses(const W4a16Gemm& descriptor);
std::vector<codegen::TileAccess> staging_accesses(const Plan& plan);
std::vector<codegen::TileAccess> exchange_accesses(const Plan& plan);

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture);

/// Adds the plan's decisions, proofs and fragments to its report, which names the family already.
void write_report(Plan& plan);

/// Of this launch and of all launches with fewer rows: where this launch does not share tiles, a launch with fewer rows
/// may, if this one can.
std::size_t launch_workspace(const BlockPlan& block, const ScheduledLaunch& launch, const runtime::DeviceFacts& device);
std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device);
Launch encode_launch(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
                     const runtime::DeviceFacts& device);

}  // namespace cubit::ops::w4a16_gemm::sm90_persistent
