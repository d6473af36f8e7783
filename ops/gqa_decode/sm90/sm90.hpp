// Kernel family sm90: producer warps copy with TMA, consumer warps compute, and blocks get balanced shares of all
// stages.
//
// The block has one ring of stages with a full and an empty mbarrier each. Producer warps fill a stage with TMA box
// copies if rows follow one another in the cache, and with vector copies of 16 bytes (cp.async) otherwise. Consumer
// warps use mma.sync; on sm_90a, blocks with many query rows of 16-bit caches use warpgroup MMAs with query rows as M.
//
// In a stage, rows of several warps lie next to each other in one row of the shared-memory tile: the rows are
// interleaved. A box of a tensor map is made of such rows.
#pragma once

#include <bit>

#include "codegen/kernel_source.hpp"
#include "ops/gqa_decode/accesses.hpp"
#include "ops/gqa_decode/family.hpp"
#include "ops/gqa_decode/plan.hpp"
#include "templates/pipeline/balanced_schedule.h"

namespace cubit::ops::gqa_decode::sm90 {

/// Whether rows of keys are no multiple of 16 bytes, the unit of bulk copies. Then bulk copies move several rows
/// together. PTX ISA, "cp.async.bulk".
bool has_unaligned_rows(const GqaDecode& descriptor);

/// `stage`: the keys of a stage, with one row of every interleaved warp side by side. The values of the stage lie
/// behind the keys in the same way.
struct Plan : CommonPlan {
  int query_groups = 1;      ///< groups of warps that read the same rows, each for a part of the block's query rows
  bool heads_are_m = false;  ///< query rows are the M of warpgroup MMAs; else tokens are the M of mma.sync
  int producer_warps = 0;
  int producer_registers = 0;  ///< per thread after the register transfer; 0: registers stay as they are
  int consumer_registers = 0;  ///< per thread after the register transfer; 0: registers stay as they are
  int tiles_per_stage = 1;     ///< tiles of 16 tokens that a warp computes in one step

  /// Tokens of a stage, counted over all warps that have tokens of their own.
  int chunk_tokens() const { return lanes::kTileRows * tiles_per_stage * token_warps(); }
  /// Warps that have tokens of their own. Query groups are a power of two.
  int token_warps() const { return warps >> std::countr_zero(static_cast<unsigned>(query_groups)); }
  /// Rows that are no multiple of 16 bytes: the rows of several warps are copied together.
  bool copies_unaligned_rows() const { return has_unaligned_rows(descriptor); }
  /// Warps whose rows lie side by side in one row of the stage. With aligned rows these are all warps that have
  /// tokens; with unaligned rows the fewest warps whose rows together have a multiple of 16 bytes.
  int interleaved_warps() const;
  int stage_bytes() const { return 2 * stage.size(); }
  int ring_bytes(int stage_count) const { return stage_count * stage_bytes(); }
  int threads() const { return lanes::kWarpSize * (warps + producer_warps); }

  /// The end of a sequence's segment costs as much time as copying so many stages: 1.4 us on an H200.
  int segment_end_stages() const;
  /// A balanced share has so many stages fewer for each sequence in it: the time of the sequence's end and of the next
  /// sequence's query loads.
  int sequence_overhead_stages() const;
  /// Whether the L2 evicts first what boxes have brought. Nobody reads the cache again, except pages that sequences
  /// share, which are read at the same time. False if several head groups read the cache, and for scales in tensors of
  /// their own, where eviction first gains nothing.
  bool evicts_first() const;
  /// Whether producers throttle their copies to the rate of the memory (copy pacing). If MMAs take nearly as long as
  /// copies, an SM that the memory has served last does not catch up with the others. Rows of 8 and 16 bits do catch
  /// up, and with more bytes in flight the memory delivers 2% more.
  bool paces_copies() const;
  /// Stages that a paced block requests at its beginning.
  int initial_stages() const;
  /// Whether a launch may make blocks begin in the middle of their segments (a start offset). Rising scores, windows
  /// and pages give stages an order of their own. Other scores and several query tokens are bound by arithmetic and
  /// stay in order, and so do formats other than int4_rows: only a multiple of 5 KV heads would make their layouts
  /// collide in a memory stack, nobody has timed that, and the code costs registers.
  bool offsets_start() const;
  /// Whether two blocks that have a sequence to themselves merge it as a 2-CTA cluster: their stages have room for what
  /// each block stores in the other, half of the channels and the sums of each of a block's query rows.
  bool merges_in_cluster() const;
  /// Bytes that one block of a cluster stores in the other at most, over the other's stages.
  int cluster_exchange_bytes() const;

  // Shared memory behind the ring: results of the warps, two barriers per stage, per segment and for a cluster, and the
  // BlockState.
  int results_at(int stage_count) const;
  int results_bytes() const;
  int barriers_at(int stage_count) const;
  static constexpr int kSegments = 4;
  int scratch_at(int stage_count) const { return barriers_at(stage_count) + 16 * (stage_count + kSegments + 1); }
  int scratch_bytes() const { return 32 * kSegments + 64; }
};

/// Whether consumer warps use warpgroup MMAs, whose 64 rows are the query rows of a KV head. That pays if there are
/// more query rows than warps compute by mma.sync without reading the stage too often, or blocks without reading the
/// cache again. Rows of the cache are operands as they lie in the stage, so they have 16-bit channels and whole parts
/// of 128 bytes. With 192 channels registers hold the query only if its words are operands as they come; with 256
/// channels registers do not hold the outputs.
bool uses_warpgroup_mma(const GqaDecode& descriptor, const codegen::Architecture& architecture);

/// Whether rows of the cache have scales in a tensor of their own.
bool reads_row_scales(const CommonPlan& plan);

/// Bytes that should be in flight per SM. A paced block has more: room for copies to run ahead while a sequence ends.
/// Without pacing kBytesInFlight is also the most that is good: with more in flight, SMs get less equal shares of the
/// memory.
int bytes_in_flight(const Plan& plan);

/// Blocks of a launch at most, each with two counters and two slots for partial results.
inline constexpr int kMostBlocks = 1024;

/// `report`: see KernelFamily::plan.
Plan make_plan(const GqaDecode& descriptor, const codegen::Architecture& architecture, PlanReport report = {});
codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture);

/// Completes the plan's report.
void report_plan(Plan& plan, const codegen::Architecture& architecture);
/// The accesses of the main loop, the vector copies first.
std::vector<codegen::TileAccess> stage_accesses(const Plan& plan);
/// What shared memory holds after the loop, while the block merges its warps.
std::vector<Tile> tiles_of_merge(const Plan& plan);
std::vector<Decision> decisions_of(const Plan& plan, const codegen::Architecture& architecture);

/// Columns of boxes that are the keys of a stage, and the rows of each box.
struct Boxes {
  int count = 0;  ///< 0: rows are copied as vectors
  int rows = 0;   ///< fewer than the stage has if a page has fewer
};

/// How the blocks of a launch share the work, from host-side bounds and the device alone. A unit is a part of a
/// sequence that one block computes: see templates/pipeline/balanced_schedule.h.
struct Split {
  int splits = 1;             ///< of every sequence, as asked for; 0: cubit decides
  int span = 1;               ///< KV heads that a block computes together
  Boxes boxes{};              ///< of keys; the boxes of values are the same
  Division division{};        ///< if lengths are on the device, only the number of blocks, at most
  int blocks_each = 0;        ///< blocks for each sequence, if lengths are on the device
  int units = 0;              ///< units of a sequence, if the host knows them; else blocks
  std::int64_t blocks = 0;    ///< of the grid
  int unit_stages = 0;        ///< stages of a unit, if all lengths are the same
  int larger_units = 0;       ///< the first units of a sequence, which have one stage more
  bool is_clustered = false;  ///< blocks are clusters of two; the kernel finds which clusters share a sequence
  std::int64_t slots = 0;     ///< partial results in the workspace; 0: none is needed

  std::int64_t partial_rows(const Plan& plan) const { return slots * span * plan.heads_per_block; }
};
/// Throws Failure(invalid_argument) for more splits or stages than a launch can have.
Split choose_split(const Plan& plan, const cubit_gqa_decode_arguments& arguments, const runtime::DeviceFacts& device);
/// Query rows with partial results in any launch within these bounds, whatever its strides, with lengths or without.
std::int64_t most_partial_rows(const Plan& plan, const cubit_gqa_decode_arguments& arguments,
                               const runtime::DeviceFacts& device);

std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device);
Launch encode(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
              const runtime::DeviceFacts& device);

const Family& family();

}  // namespace cubit::ops::gqa_decode::sm90
