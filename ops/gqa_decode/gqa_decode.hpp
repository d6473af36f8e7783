// Inside the operator gqa_decode: text ► descriptor ► plan ► source ► launch, and the reference. See operator.cpp.
#pragma once

#include <cubit/gqa_decode.hpp>

#include <bit>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "codegen/tile_layout.hpp"
#include "ops/element/element.hpp"
#include "ops/fields.hpp"
#include "ops/kernel_family.hpp"
#include "ops/kv_cache/row_format.hpp"
#include "ops/operator.hpp"
#include "templates/pipeline/balanced_schedule.h"

namespace cubit::ops {

const Operator& gqa_decode_operator();

namespace gqa_decode {

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<GqaDecode>>& fields();

/// Throws Failure(invalid_argument) with the rule that `text` breaks.
GqaDecode parse(std::string_view text);

/// Rules between fields; parse() has applied them. Throws Failure(invalid_argument).
void validate(const GqaDecode& descriptor);

/// Which of soft_cap, alibi, score and window the descriptor asks for, joined by ", "; empty: none.
std::string modifications(const GqaDecode& descriptor);

/// Why no bulk copy can move the descriptor's rows; empty if one can. PTX ISA, "cp.async.bulk": 16-byte units.
std::string why_not_bulk_copies(const GqaDecode& descriptor);

/// Whether rows of keys are no multiple of those units: then bulk copies move several together. What a plan does about
/// it: Plan::copies_unaligned_rows().
bool has_unaligned_rows(const GqaDecode& descriptor);

/// Why family sm75 does not take the descriptor, whose types are not all fp16; empty if it does.
std::string why_not_all_fp16(const GqaDecode& descriptor);

/// Why family sm90 refuses values that are stored otherwise than keys.
inline constexpr const char* kOneFormatOnly = "its keys and values have one format and one head_dim";

/// Whether head_dim is a power of two or three times one: all but 80, 112 and 160.
constexpr bool is_usual_head_dim(int head_dim) {
  const int odd = head_dim / (head_dim & -head_dim);
  return odd == 1 || odd == 3;
}
inline constexpr const char* kUsualHeadDimsOnly = "it takes head_dim=64, 96, 128, 192 and 256";

/// Of values in int4_rows: whether what rounding takes off products of weights and scales is beside nibble - 7.5, as
/// outputs of fp16 need; beside nibbles it is still less than what outputs of bf16 lose.
inline bool centres_nibbles(const GqaDecode& descriptor) {
  return kv_cache::formats_of(descriptor).value.kv == KvFormat::int4_rows && descriptor.output == Element::fp16;
}

/// Everything that is decided before a batch is known.
struct Plan {
  GqaDecode descriptor;
  std::string_view family = kAnyFamily;  ///< chosen: never kAnyFamily
  // The heads of every query token count as heads of their own.
  int head_groups = 1;           ///< blocks that share the heads of a KV head; each reads the cache
  int heads_per_block = 1;       ///< of a head group; the last may have fewer
  bool query_is_shared = false;  ///< family sm80: query operands are in shared memory, not in registers
  int warps = 4;                 ///< that attend
  int column_groups = 1;         ///< family sm90: warps that have the same rows, each with its part of a block's heads
  bool heads_are_rows = false;   ///< family sm90: of products, which warpgroups make; else tokens are
  int copy_warps = 0;            ///< family sm90: that copy for them
  int copy_registers = 0;        ///< family sm90: of a thread that copies, after giving others some; 0: as they come
  int attend_registers = 0;      ///< family sm90: of a thread that attends, after that
  int tiles_per_stage = 1;       ///< of 16 tokens: a warp takes them in one step
  int stages = 0;
  int blocks_per_sm = 0;
  int copy_bytes = 0;
  int held_pieces = 0;       ///< family sm75: of a lane's copies of the next tile, those that wait in registers
  bool keep_offsets = true;  ///< where a lane's copies come from, relative to a tile: in registers or computed anew
  int slot_period = 0;       ///< copies after which the places in a stage repeat, but for a constant: see slot_period()
  bool recomputes_lanes = false;  ///< what follows from a lane, such as addresses: anew at each use, not kept
  int counted_registers = 0;      ///< that the loop keeps live, per thread
  /// Families sm75 and sm80: of one tile, 16 rows of keys, then 16 of values. Family sm90: the keys of a stage, a row
  /// of every warp that is abreast side by side; behind them are the values in the same way.
  codegen::TileLayout stage;
  /// Family sm80, where values are stored otherwise than keys: 16 rows of values, behind the stage of 16 rows of keys.
  codegen::TileLayout value_stage;
  int shared_memory = 0;
  PlanReport report;

  /// Of the block, in one step of its warps.
  int chunk_tokens() const { return 16 * tiles_per_stage * row_warps(); }
  /// That have rows of their own: column groups are a power of two.
  int row_warps() const { return warps >> std::countr_zero(static_cast<unsigned>(column_groups)); }
  /// Family sm90, of rows that are no multiple of 16 bytes: those of several warps are copied together.
  bool copies_unaligned_rows() const { return family == "sm90" && has_unaligned_rows(descriptor); }
  /// Family sm90: of those the ones whose rows lie side by side in a row of the stage, which is what boxes are made of:
  /// all, or of unaligned rows as few as make a multiple of 16 bytes.
  int warps_abreast() const;
  int heads_per_warp() const { return heads_per_block / column_groups; }
  /// Of a ring's stage: in families sm75 and sm80 each warp has a ring, in family sm90 the block.
  int stage_bytes() const {
    if (!formats().are_alike()) return stage.size() + value_stage.size();
    return family == "sm90" ? 2 * stage.size() : stage.size();
  }
  int ring_bytes(int stage_count) const { return (family == "sm90" ? 1 : warps) * stage_count * stage_bytes(); }
  int threads() const { return 32 * (warps + copy_warps); }
  /// Family sm90: the stages that an SM could have read in the time that a segment's end takes, 1.4 us on an H200.
  int flush_stages() const;
  /// Family sm90: those that a share has fewer for each sequence in it: what its end and the next one's queries take.
  int gap_stages() const;
  /// Family sm90: whether the L2 lets go of what boxes have brought first: nobody reads it again, but for pages that
  /// sequences share, which are read at the same time. False where several head groups read the cache; and where scales
  /// are tensors of their own, which gains nothing.
  bool evicts_first() const;
  /// Family sm90: whether blocks start copies no sooner than the memory can have brought those before (copy_pacing.cuh). Where
  /// products take nearly as long as copies do, an SM that the memory has served last does not catch up when others are
  /// done; those of rows of 8 and 16 bits do, and with more on its way the memory gives 2% more.
  bool keeps_pace() const;
  /// Then: those that a block asks for at its beginning.
  int stages_at_once() const;
  /// Family sm90: whether blocks may begin in the middle of their segments, which a launch decides (producer_stage.cuh).
  /// Where scores rise, with windows and in pages stages have an order of their own; other scores and several query
  /// tokens, which arithmetic binds, are left in order. So are formats other than int4_rows: no layout of theirs meets
  /// at a stack but that of a multiple of 5 KV heads, which nobody has timed, and the code for it costs registers.
  bool staggers() const;
  /// Family sm90: whether two blocks that have a sequence to themselves merge it as a cluster (cluster_merge.cuh): its
  /// stages hold what each stores in the other, half of the channels and the sums of as many rows as a block has.
  bool merges_pairs() const;
  /// Query operands in shared memory, behind the rings; 0: they are in registers.
  int query_bytes() const;
  int query_at(int stage_count) const { return ring_bytes(stage_count); }
  /// Where the warps' results go: over the stages, or in family sm90, whose copies run on meanwhile, behind them.
  int results_at(int stage_count) const;
  /// Family sm80: the results of other blocks that the last one has in shared memory at a time, a power of two; 0: they
  /// come by registers, as where the lanes of a warp have several heads of them.
  int parts_at_once() const;
  int head_tiles() const { return (heads_per_warp() + 7) / 8; }  ///< of a warp
  /// Behind all of it family sm90 keeps two barriers per stage, per place of a segment and for a pair, and then its
  /// BlockState.
  int barriers_at(int stage_count) const;
  static constexpr int kSegments = 4;
  int scratch_at(int stage_count) const { return barriers_at(stage_count) + 16 * (stage_count + kSegments + 1); }
  int scratch_bytes() const { return 32 * kSegments + 64; }
  int heads() const { return descriptor.heads_per_kv * descriptor.query_tokens; }  ///< of a KV head
  kv_cache::CacheFormats formats() const { return kv_cache::formats_of(descriptor); }
};

/// Sets the plan's family and the rejections; throws Failure(unsupported) if every family is rejected.
void choose_family(Plan& plan, const codegen::Architecture& architecture);
/// A family's template.
std::string_view kernel_of(std::string_view family);
/// Whether family sm90 makes products by warpgroups, whose 64 rows are the columns of a KV head: of more columns than
/// warps take by mma.sync without reading the stage too often, or blocks without reading the cache again. Rows are
/// operands as they lie in the stage, so they are of 16 bits and whole parts of 128 bytes; of 192 channels registers
/// hold the query only if its words are operands as they come, of 256 they do not hold the outputs.
bool makes_products_by_heads(const GqaDecode& descriptor, const codegen::Architecture& architecture);

/// Throws Failure(unsupported) for an architecture without the instructions of any family.
Plan make_plan(const GqaDecode& descriptor, const codegen::Architecture& architecture);
codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture);

/// What a plan wants on its way into an SM: about three times latency times bandwidth of the fastest part measured (an
/// H200: 4.7 TB/s over 132 SMs at about 0.8 us, 28 KB), because warps start and finish their tiles unevenly.
inline constexpr int kBytesInFlight = 96 * 1024;
/// The same of family sm90 where blocks keep pace: room that copies may run ahead in while a sequence ends.
inline constexpr int kBytesInFlightAtPace = 128 * 1024;
/// Then: what an SM asks for at the beginning. Twice as much costs 1 us of 42 (docs/performance/gqa_decode_sm90.md,
/// version 11).
inline constexpr int kBytesAtOnce = 80 * 1024;
/// The one of both that the plan is by. Of family sm90 without a pace it is also the most that is good: with more on
/// their way SMs get less equal shares of the memory.
int bytes_in_flight(const Plan& plan);

/// Family sm90: blocks of a launch, each with two counters and two slots.
inline constexpr int kMostBlocks = 1024;

/// Fills in the decisions, the proofs, the map of shared memory and the fragments of a plan whose family is chosen.
void write_report(Plan& plan, const codegen::Architecture& architecture);

/// Of the report: what was decided, and why.
std::vector<Decision> decisions_of(const Plan& plan, const codegen::Architecture& architecture);

/// Whether rows of keys or of values are int4_rows of 8 groups, which take the most registers.
bool has_eight_packed_groups(const kv_cache::CacheFormats& formats);

/// Whether rows have scales in a tensor of their own, one or more for each.
bool reads_row_scales(const Plan& plan);

/// Bytes of one row in a stage: the header is padded to whole 16-byte matrix rows.
int stage_row_bytes(const kv_cache::RowFormat& format);
/// The shared-memory accesses of the loop, the copies first, by which the stage's layout is searched and proved. Where
/// values are stored otherwise than keys, those of keys, and in rows from 0 on those of values; else there are none of
/// the latter.
std::vector<codegen::TileAccess> stage_accesses(const Plan& plan);
std::vector<codegen::TileAccess> value_stage_accesses(const Plan& plan);
/// Copies that each lane of a warp makes of a tile.
int count_copies(const Plan& plan);
/// What shared memory holds after the loop, where the warps' results are merged: outputs, then sums, side by side.
std::vector<Tile> merge_tiles(const Plan& plan);
/// What it holds then in the last block of a sequence: results of others, see parts_at_once.
std::vector<Tile> part_tiles(const Plan& plan);
/// Query operands in shared memory; none where they are in registers.
std::vector<Tile> query_tiles(const Plan& plan);
/// The smallest n for which copy i of a lane goes where its copy i % n goes, plus a distance that is the same for all
/// lanes that take part.
int slot_period(const Plan& plan);
int merge_bytes(const Plan& plan);
/// What a block of a pair stores in the other at most, over its stages: sums of half of the channels of each row.
int pair_bytes(const Plan& plan);

/// Throw Failure(invalid_argument) for what is not a finite number of reasonable size.
void check_softmax_scale(double scale);
void check_soft_cap(double cap);

/// Of a sequence of `length` tokens those that a query behind them sees. `window`: 0 where there is none.
std::int64_t seen_tokens(std::int64_t length, std::int64_t window, std::int64_t kept_tokens);

/// What is split by itself and has a counter: (sequence, KV head, head group).
std::int64_t count_sequences(const Plan& plan, const cubit_gqa_decode_arguments& arguments);

/// How the blocks of a launch share the work, from host-side bounds and the device alone.
struct Split {
  int splits = 1;  ///< families sm75 and sm80: of every such one; sm90: as asked for, 0 where cubit decides
  int span = 1;    ///< family sm90: KV heads that a block takes together
  int boxes =
      0;  ///< family sm90: columns of boxes that are the keys of a stage, as its values; 0: rows are copied in pieces
  int box_rows = 0;         ///< family sm90: rows of a box; fewer than a stage's where a page has fewer
  Division division{};      ///< family sm90; of one whose lengths are on the device, only the blocks, at most
  int blocks_each = 0;      ///< family sm90: blocks for each sequence, where the lengths are on the device
  int units = 0;            ///< family sm90: of a sequence, where the host knows them, else blocks
  std::int64_t blocks = 0;  ///< of the grid
  int unit_stages = 0;      ///< family sm90, where all lengths are the same: of a unit; the first ones have one more
  int larger_units = 0;     ///< those that have
  bool paired = false;      ///< family sm90: blocks are clusters of two; whether those are pairs the kernel finds
  std::int64_t slots = 0;   ///< of partial results in the workspace; 0: none is needed

  std::int64_t partial_rows(const Plan& plan) const { return slots * span * plan.heads_per_block; }  ///< one per head
};
inline constexpr int kMostSplits = 256;  ///< that a launch can ask for
inline constexpr int kMostQueryTokens = 16;
Split choose_split(const Plan& plan, const cubit_gqa_decode_arguments& arguments, const runtime::DeviceFacts& device);
/// The part of it of families sm75 and sm80.
int choose_splits(const Plan& plan, std::int64_t sequences, int max_length, const runtime::DeviceFacts& device);
/// The descriptor with the family that launches of these sizes over a dense cache want, where it leaves that open.
/// Throws Failure(invalid_argument) for a size of another name or out of range.
GqaDecode suggest(const GqaDecode& descriptor, const Numbers& sizes, const runtime::DeviceFacts& device);
/// Partial results of a launch within these bounds, whatever the strides, with lengths or without.
std::int64_t most_partial_rows(const Plan& plan, const cubit_gqa_decode_arguments& arguments,
                               const runtime::DeviceFacts& device);
std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device);
Launch encode(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
              const runtime::DeviceFacts& device);

/// The table of docs/performance/gqa_decode.md.
std::vector<BenchCase> bench_cases();

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

/// Where query token `token` of a sequence of `length` tokens stands; negative: nowhere, it sees nothing.
inline int query_position(const GqaDecode& descriptor, int length, int token) {
  return length - descriptor.query_tokens + token;
}
/// Whether it sees a position of the sequence. `mask`: its word, where the descriptor has mask=tree.
bool sees(const GqaDecode& descriptor, int length, int token, std::uint32_t mask, int position);

/// Attention in double precision over host tensors.
struct ReferenceHead {
  std::vector<double> output;         ///< [value_dim]
  std::vector<double> contributions;  ///< sum over tokens of weight · |value|
  double lse = 0;
  double token_norm = 0;  ///< root of the sum over tokens of |weight · value|²: of independent ones the output's norm
  double centred_norm = 0;  ///< the same of int4_rows' scale · (nibble - 7.5); else 0
};
/// Rows of one KV head: of a token its row, and where the format has scales of their own its scales.
struct HeadRows {
  std::function<const char*(int token)> row;
  std::function<const char*(int token)> scales = [](int) { return nullptr; };
};
/// What a head's scores go through: see <cubit/gqa_decode.h>. A user's own modification has no reference.
struct ScoreRules {
  double soft_cap = 0;  ///< 0: none
  double alibi_slope = 0;
  std::int64_t window = 0;  ///< 0: none
  std::int64_t kept_tokens = 0;
  double sink = -std::numeric_limits<double>::infinity();
  int query_position = -1;  ///< negative: the last
};
/// `is_seen`: of a position; of none: all are that a window leaves.
ReferenceHead reference_head(const GqaDecode& descriptor, const double* query, const HeadRows& keys,
                             const HeadRows& values, int length, double softmax_scale, const ScoreRules& rules = {},
                             const std::function<bool(int position)>& is_seen = nullptr);

}  // namespace gqa_decode
}  // namespace cubit::ops
