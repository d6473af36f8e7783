// Inside the operator w4a16_gemm: text ► descriptor ► plan ► source ► launch, and the reference. See operator.cpp.
#pragma once

#include <cubit/w4a16_gemm.hpp>

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "codegen/tile_layout.hpp"
#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& w4a16_gemm_operator();

namespace w4a16_gemm {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<W4a16Gemm>>& fields();

/// Throws Failure(invalid_argument) with the rule that `text` breaks.
W4a16Gemm parse(std::string_view text);
/// The rules between fields, of a descriptor that was asked for as `text`. Throws as parse does.
void check_rules(const W4a16Gemm& descriptor, std::string_view text);

inline constexpr std::array kTileRows = {8, 16, 32, 64};
inline constexpr std::array kTileColumns = {256, 224, 160, 128, 96, 64, 32};

std::string why_not_boxes(const W4a16Gemm& descriptor);  ///< the rule that keeps family sm90 from it, or nothing
std::string why_not_boxes_of_few_columns(const W4a16Gemm& descriptor);  ///< likewise, where tile_n is less than 256
std::string why_not_all_fp16(const W4a16Gemm& descriptor);              ///< likewise family sm75
bool is_of_sm90_alone(int tile_n);                  ///< blocks of so many columns are written for family sm90 alone
bool stages_factors(const W4a16Gemm& descriptor);   ///< scales and zeros travel with the words of their k's
bool stores_zeros(const W4a16Gemm& descriptor);     ///< else every zero is zero_offset
int zero_offset(const W4a16Gemm& descriptor);       ///< what a stored zero is less than the zero that is meant
int word_weights(const W4a16Gemm& descriptor);      ///< that a word of qweight, or of qzeros, holds
int groups_of(const W4a16Gemm& descriptor, int k);  ///< of all of k
bool spreads_words(const W4a16Gemm& descriptor);    ///< family sm90: a step's k's are of 64, which groups of 32 forbid
int stage_groups(const W4a16Gemm& descriptor);      ///< whose scales a stage holds, or all stages together
int output_columns(const W4a16Gemm& descriptor, int n);

/// Everything that is decided before a size is known. A stage is 128 k's of tile_n columns and tile_m rows.
struct Plan {
  W4a16Gemm descriptor;
  std::string_view family = "sm80";
  int warps = 4;       ///< that multiply, each other columns
  int teams = 1;       ///< of such warps, each with a part of k; in family sm80 each with a ring of its own too
  int copy_warps = 0;  ///< family sm90: that copy, and put activations in order; of four, others are idle
  int copy_rests = 0;  ///< family sm90 with teams: between two stages of a warp that copies
  bool has_sums_apart = false;  ///< likewise: sums of teams are where no stage was
  int copy_registers = 0;       ///< per thread once they have given them
  int multiply_registers = 0;   ///< likewise of the others, which have taken them
  int stages = 0;
  int blocks_per_sm = 0;
  int merged_tiles = 1;  ///< sums of 8 rows and 32 columns whose parts of k are loaded together when they are merged
  int copy_bytes = 16;   ///< of words
  int counted_registers = 0;  ///< that the loop keeps live, per thread
  int held_registers = 0;     ///< family sm75: of them, those in which the next stage waits
  codegen::TileLayout words;
  codegen::TileLayout activations;
  codegen::TileLayout scales;  ///< a row per group of a stage; empty with activation order
  codegen::TileLayout zeros;   ///< likewise; empty where none are stored
  int shared_memory = 0;
  PlanReport report;

  int threads() const { return 32 * (teams * warps + (copy_warps > 0 ? 4 : 0)); }
  int strips() const;         ///< of 32 columns
  int block_columns() const;  ///< of the output
  int activations_at() const;
  int scales_at() const;  ///< in a stage, or where they are behind the stages, from a stage's on
  int zeros_at() const;
  int stage_bytes() const;
  int factor_bytes() const;                ///< family sm90 with teams: of a stage's groups, which are behind the stages
  int barriers_at(int stage_count) const;  ///< family sm90: behind the stages
  int barrier_bytes(int stage_count) const;  ///< family sm90: of stages and, without teams, of pairs
  int ups_at(int stage_count) const;      ///< family sm90: sums of a gated block's second columns, behind the barriers
  int ring_bytes(int stage_count) const;  ///< of a team's stages, and the factors behind them
  int bytes_for(int stage_count) const;   ///< shared memory
  int team_sum_bytes() const;             ///< of all teams
  int counters_per_tile() const;  ///< where splits share it: one for the warps that add up the same columns and rows
};

bool has_copied_teams(const Plan& plan);  ///< family sm90, few columns: see sm90_w4a16_gemm_narrow.cuh
/// Whether several blocks can have parts of k of the same columns. Of few columns only in family sm90, up to 160 of
/// them: who asks for 224 has many, and code that is jumped over costs 0.2 us.
bool shares_k(const Plan& plan);
bool has_pairs(const Plan& plan);      ///< family sm90: parts of k in pairs of blocks, see cluster_split_k.cuh
bool has_many_rows(const Plan& plan);  ///< family sm90, tiles of more than 32 rows
/// Family sm90, many rows of words by k: all blocks together put activations in order, in the workspace, see
/// reordered_activations.cuh.
bool reorders_activations(const Plan& plan);
/// The last of the workspace's counters, where activations are reordered: one for each slice, and two. The others are
/// for merges.
inline constexpr std::int64_t kReorderCounters = 256;
std::int64_t merge_counters(const Plan& plan);

/// Throws Failure(unsupported) for an architecture without the instructions of any family.
Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);
/// The same but for what explains it, which takes most of the time.
Plan make_plan_without_report(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);
codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture);

/// What a plan wants on its way into an SM: twice latency times bandwidth of the fastest part measured (see
/// gqa_decode), and rather a second block, which computes while the first waits at its barrier, than more.
inline constexpr int kBytesInFlight = 64 * 1024;

/// By a kernel of family sm75 with 64 rows on a device with cp.async: stored and loaded. Others spill nothing.
inline constexpr int kMostSpilledBytes = 96;

/// Fills in the decisions with their reasons, the proofs and the fragments.
void write_report(Plan& plan, const codegen::Architecture& architecture);

/// The shared-memory accesses of the loop, by which layouts are searched and proved.
std::vector<codegen::TileAccess> word_accesses(const Plan& plan);
std::vector<codegen::TileAccess> activation_accesses(const Plan& plan);
std::vector<codegen::TileAccess> scale_accesses(const Plan& plan);
std::vector<codegen::TileAccess> zero_accesses(const Plan& plan);

/// How the blocks of a launch share the work, from sizes and the device alone.
struct Split {
  std::int64_t row_tiles = 0;
  std::int64_t column_tiles = 0;
  int stages = 0;  ///< of all of k
  int splits = 1;  ///< parts of a tile, with even shares at most
  int blocks = 0;  ///< that have even shares of all tiles' stages (stream-K); 0: of each tile `splits`
  int turns =
      0;  ///< blocks that take whole tiles and add up their `splits` one after another; 0: a block for each split
  bool paired = false;  ///< two parts that follow each other are a cluster
  bool atomic = false;  ///< sums of parts are added in the order in which they come, in one place of each tile

  std::int64_t tiles() const { return row_tiles * column_tiles; }
};
/// Throws Failure(invalid_argument) where no kernel of the descriptor has the cubit_w4a16_decomposition, or it is none.
void check_decomposition(const W4a16Gemm& descriptor, int decomposition);
/// Throws likewise, also for what the family and the sizes rule out.
Split choose_split(const Plan& plan, const cubit_w4a16_gemm_arguments& arguments, const runtime::DeviceFacts& device);

/// What the model was fitted to: its architecture and multiprocessors.
runtime::DeviceFacts h200();
/// The time of a launch in blocks of 256 columns, in stages of one block; with `blocks` even shares.
double modelled_stages(const Plan& plan, std::int64_t tiles, int stages, int splits,
                       const runtime::DeviceFacts& device);
double modelled_stages_of_shares(const Plan& plan, std::int64_t tiles, int stages, int blocks,
                                 const runtime::DeviceFacts& device);
/// The time of any launch. The memory counts where it is slower than an H200's, to which the model was fitted; 0: as
/// that one's, which is how parts of k are chosen, for others have not been timed on slower ones.
double modelled_microseconds(const Plan& plan, const Split& split, const runtime::DeviceFacts& device,
                             std::int64_t memory_bytes_per_second = 0);
/// Of a tile's `stages`, at most, where blocks have `share` stages each.
int most_parts(int stages, std::int64_t share);
inline constexpr int kMostSplits = 256;  ///< that a launch can ask for

/// The descriptor with the tile_m and tile_n whose launches of `m` rows (0 is as 1) take least by the model; those that
/// it has do not count. Where the model knows nothing (see is_modelled) the smallest tile of rows that holds them, of
/// 256 columns. Throws Failure(invalid_argument) as check_sizes does, Failure(unsupported) where no tile has a kernel.
W4a16Gemm with_fastest_tiles(const W4a16Gemm& descriptor, std::int64_t m, std::int64_t n, std::int64_t k,
                             const runtime::DeviceFacts& device);
/// The same by sizes with these names. Throws Failure(invalid_argument) if one is missing, or another is there.
W4a16Gemm suggest(const W4a16Gemm& descriptor, const Numbers& sizes, const runtime::DeviceFacts& device);

std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device);
Launch encode(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
              const runtime::DeviceFacts& device);

/// Sizes that the descriptor rules out; throws Failure(invalid_argument). Of launches and of problems.
void check_sizes(const W4a16Gemm& descriptor, std::int64_t m, std::int64_t n, std::int64_t k);
/// Of launches alone: columns whose rows of words are not aligned as the descriptor says. Throws likewise.
void check_rows_of_words(const W4a16Gemm& descriptor, std::int64_t n);

}  // namespace w4a16_gemm
}  // namespace cubit::ops
