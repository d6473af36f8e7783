// What the kernel families sm75 and sm80 share: every warp of a block has a pipeline of its own.
//
// Both families fill the template kernels/attention/sm80_gqa_decode.cuh. Each warp copies tiles of 16 tokens into its
// own ring of stages and computes them, so the main loop has no barrier of the block. Every sequence is cut into the
// same number of splits (split-KV). The families differ in the instruction that copies, which is a role of the
// template: sm80 copies with cp.async, sm75 with loads and stores. A family plans with the steps below and adds what is
// its own.
#pragma once

#include <cubit/gqa_decode.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel_source.hpp"
#include "codegen/plan_header.hpp"
#include "ops/gqa_decode/accesses.hpp"
#include "ops/gqa_decode/plan.hpp"
#include "ops/gqa_decode/source.hpp"

namespace cubit::ops::gqa_decode::warp_ring {

/// A plan in which every warp has a ring. `stage`: 16 rows of keys, then 16 rows of values if values are stored in the
/// same format as keys; else 16 rows of keys alone.
struct Plan : CommonPlan {
  codegen::TileLayout value_stage;  ///< values in a format of their own: 16 rows of values, behind the rows of keys
  int slot_period = 0;              ///< see find_slot_period()

  int chunk_tokens() const { return lanes::kTileRows * warps; }  ///< tokens that a block computes in one step
  int threads() const { return lanes::kWarpSize * warps; }
  int stage_bytes() const { return stage.size() + (value_stage.rows > 0 ? value_stage.size() : 0); }
  int ring_bytes(int stage_count) const { return warps * stage_count * stage_bytes(); }  ///< the rings of all warps
};

/// Shared memory of a block with so many stages per warp. After the loop the results of the warps lie over the rings.
/// `query_bytes`: query operands in shared memory, behind the rings.
int shared_memory_for(const Plan& plan, int stages, int query_bytes);

/// Searches the layouts of the stage and counts the copies. Requires copy_bytes. `copies`: the name of the accesses
/// that write a stage.
void choose_layouts(Plan& plan, const char* copies);

/// Chooses four warps, one for each scheduler of an SM, or two if the stages of four do not fit; then stages and blocks
/// per SM.
void choose_stages(Plan& plan, const codegen::Architecture& architecture, int fewest, int most, int query_bytes);

/// The accesses of the main loop, the copies first. If values have a format of their own, stage_accesses() has those of
/// keys, and value_stage_accesses() those of values in rows from 0 on; else value_stage_accesses() is empty.
std::vector<codegen::TileAccess> stage_accesses(const Plan& plan, const char* copies);
std::vector<codegen::TileAccess> value_stage_accesses(const Plan& plan, const char* copies);
/// Vector copies that each lane of a warp makes of a tile.
int count_copies(const Plan& plan);
/// The smallest n for which a lane's copy i goes to the place of the lane's copy i % n, plus a distance that is the
/// same for all lanes of the copy.
int find_slot_period(const Plan& plan);

/// What a family says about its copies in the plan header.
struct CopyRole {
  std::string_view header;  ///< the role's file: "pipeline/tile_copies_async.cuh"
  std::string type;         ///< the role: "cubit::AsyncTileCopies<kCopyBytes, kStages>"
  bool keep_offsets = false;
  bool query_is_shared = false;
  int query_at = 0;
  int query_bytes = 0;
  int partials_at_once = 0;
};
codegen::KernelSource make_source(const Plan& plan, const CopyRole& role, const codegen::Architecture& architecture);

/// Tiles of the report: the stage, then the family's `others`, then the merge.
std::vector<Tile> report_tiles(const Plan& plan, const char* copies, std::vector<Tile> query_tiles,
                               std::vector<Tile> partial_tiles);
/// Shared memory while the loop runs and while the block merges. `partial_tiles`: other blocks' results, which the last
/// block of a sequence loads.
std::vector<MemoryRegion> memory_map(const Plan& plan, int query_bytes, const std::vector<Tile>& partial_tiles);

// Decisions of the report that the families word alike.
Decision warp_decision(const Plan& plan, const codegen::Architecture& architecture);
Decision copy_decision(const Plan& plan);
Decision stage_decision(const Plan& plan);
Decision split_decision();
Decision page_decision();

/// Splits of a sequence that is so long, at most 256. Pure.
int choose_splits(const Plan& plan, std::int64_t sequences, int max_length, const runtime::DeviceFacts& device);

/// How the blocks of a launch share the work.
struct Split {
  int splits = 1;           ///< of every sequence
  std::int64_t blocks = 0;  ///< of the grid
  std::int64_t slots = 0;   ///< partial results in the workspace; 0: none is needed
};
Split choose_split(const Plan& plan, const cubit_gqa_decode_arguments& arguments, const runtime::DeviceFacts& device);

std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device);
Launch encode(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
              const runtime::DeviceFacts& device);

}  // namespace cubit::ops::gqa_decode::warp_ring
