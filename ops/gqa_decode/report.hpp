// The parts of a plan's report that all kernel families of gqa_decode write. A family adds its own decisions, its tiles
// and its map of shared memory.
#pragma once

#include <string>
#include <vector>

#include "ops/gqa_decode/plan.hpp"

namespace cubit::ops::gqa_decode {

/// What a family's plan adds to its report.
struct ReportParts {
  std::vector<Tile> tiles;  ///< the first is the stage, or the stage's keys, followed by the stage's values
  std::vector<MemoryRegion> memory;
  std::vector<Decision> decisions;
  std::vector<std::string> fragments;
};
/// Completes the plan's report, with a proof for every access of the tiles and a reason for every bank conflict.
void write_report(CommonPlan& plan, ReportParts parts);

/// The fragment maps of a kernel that uses mma.sync.
std::vector<std::string> mma_fragments(const CommonPlan& plan, const codegen::Architecture& architecture);

/// Adds the regions of the merge of a block's warps: the word of the last block, then `tiles`.
void add_merge_regions(std::vector<MemoryRegion>& map, const std::vector<Tile>& tiles, int results_at, int bytes);

// Decisions that families word alike.

/// Tokens and query rows of an MMA, with tokens as M.
Decision tile_decision(const CommonPlan& plan, const codegen::Architecture& architecture);
/// `holder`: what else holds the query rows of one block, such as ", 8 of a warp"; `limit`: why one block does not take
/// all of them, if there are several head groups.
Decision head_group_decision(const CommonPlan& plan, const std::string& holder, const std::string& limit);
/// Why registers limit the query rows of a block.
std::string register_limit(const CommonPlan& plan);
/// The types of the MMAs' operands.
std::vector<Decision> operand_decisions(const CommonPlan& plan, const codegen::Architecture& architecture);
/// Stages, and the bytes in flight that they allow. `purpose`: "in flight"; `ring_bytes`: of all stages but one.
Decision stages_decision(const CommonPlan& plan, int ring_bytes, const std::string& purpose, int wanted_bytes);
/// Blocks per SM. `moved`: how many registers threads have after a register transfer.
Decision block_decision(const CommonPlan& plan, int threads, const codegen::Architecture& architecture,
                        const std::string& moved);
/// Lanes' addresses that are computed at each use.
Decision lane_decision();
/// What the scores go through, and which tokens are read. `page`: the family's decision about a paged cache.
void add_role_decisions(std::vector<Decision>& decisions, const GqaDecode& descriptor, const Decision& page);
/// Adds the decision about outputs of fp16, if the values are packed.
void add_middle_decision(std::vector<Decision>& decisions, const GqaDecode& descriptor);

std::string swizzle_text(const codegen::Swizzle& swizzle);

}  // namespace cubit::ops::gqa_decode
