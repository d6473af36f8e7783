// Kernel family sm90_persistent of GEMMs: for many rows, and for weights that need no conversion. Clusters of two
// blocks compute tiles of 256 columns and 16 to 256 rows until none is left. One producer warp fills a ring of stages
// with TMA box copies. Two consumer warpgroups dequantise weights into the register operand of wgmma, or let wgmma read
// the weights from shared memory. Operands have 16 bits, or both are bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "codegen/tile_layout.hpp"
#include "ops/gemm/launch.hpp"
#include "ops/gemm/plan.hpp"
#include "ops/gemm/weights.hpp"
#include "ops/operator.hpp"
#include "templates/gemm/persistent_gemm_lanes.h"

namespace cubit::ops::gemm::sm90_persistent {

inline constexpr int kWarpgroups = 2;  ///< of consumers
inline constexpr int kClusterBlocks = 2;
inline constexpr int kProducerRegisters = 40;  ///< per thread; the 384 threads begin with 168 each
inline constexpr int kConsumerRegisters = 232;
// A warpgroup that asks for more registers than the block began with waits for them forever.
static_assert(kWarpgroups * kConsumerRegisters + kProducerRegisters <= (kWarpgroups + 1) * 168);

/// The weight operand of a block, which has half of the tile's columns, and the roles that go with it. A row of stage_k
/// activations has 128 bytes. `fragments` are those of the product, too.
struct Weights : WeightOperand {
  Weights() { activations = {"gemm/shared_activations.cuh", "cubit::SharedActivations<kTokens>"}; }

  std::vector<codegen::TileAccess> staging;  ///< stores of a warpgroup's outputs, in a staging tile of store_rows()
  Role product = {"gemm/warpgroup_product.cuh", "cubit::Float32Product<Element, kTokens>"};
  Role output = {"gemm/staged_epilogue.cuh", "cubit::PackedHalves<Element>"};  ///< type of the outputs
  int index_bytes = 0;            ///< of a stage: the groups of its values along k, behind the weights
  bool in_shared_memory = false;  ///< wgmma reads the weights where the copy has put them; else lanes dequantise words
};

/// The plan of templates/kernels/gemm/sm90_persistent_gemm.cuh.
struct Plan {
  BlockPlan block;
  Weights weights;
  int store_rows = 0;            ///< rows of the output that a staging tile has
  codegen::TileLayout staging;   ///< of one staging tile: the outputs of a warpgroup
  codegen::TileLayout exchange;  ///< sums that one warpgroup gives away when a cluster splits k

  int activation_bytes() const { return block.tiles.activations.size(); }  ///< of a stage
  int stage_bytes() const;
  int staging_at(int stages) const { return stages * stage_bytes(); }
  int staging_bytes() const { return 2 * kWarpgroups * staging.size(); }
  int table_at(int stages) const { return staging_at(stages) + staging_bytes(); }  ///< of scales and zeros
  int barriers_at(int stages) const { return table_at(stages) + block.factor_table_bytes; }
  int shared_memory(int stages) const;
};

/// Rows of a staging tile.
int store_rows(const GemmDescriptor& descriptor);

Plan make_plan(const GemmDescriptor& descriptor, Weights weights, const codegen::Architecture& architecture);

/// Consumer warps load the words of a stage one stage before they dequantise them. With 256 rows the accumulators leave
/// no registers for that, and the products take longer than all else. No warp loads weights that wgmma reads.
bool loads_words_ahead(const Plan& plan);

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture);

/// Adds the plan's decisions, proofs and fragments to a report, which names the family already. `operands`: how words
/// become operands.
void write_report(PlanReport& report, const Plan& plan, const std::vector<Decision>& operands,
                  const codegen::Architecture& architecture);

/// Requires that the launch is not empty, that its tensors are checked, and exact_workspace_bytes() of workspace.
Launch encode_launch(const Plan& plan, const ScheduledLaunch& scheduled, const WeightTensors& weights, void* workspace,
                     const runtime::DeviceFacts& device);

}  // namespace cubit::ops::gemm::sm90_persistent
