// From a descriptor and an architecture to tiles, stages and layouts. Pure: values in, values out.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "ops/families.hpp"
#include "ops/ring.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

constexpr int kMostStages = 6;
constexpr int kFewestStages = 3;     // one in use, one landed or landing, one on its way; 2 where no more have room
constexpr int kMostMergedTiles = 4;  // of four parts 32 loads: what the loop's registers hold once it is over
constexpr int kRegion = 128;         // regions of shared memory begin at bank 0
constexpr int kMostTeams = 8;
constexpr int kMostBoxStages = 12;              // family sm90: 8 rows have room for so many
constexpr int kMostTeamStages = 24;             // family sm90, few columns: 32 of them with 8 rows have room for more
constexpr int kStageStep = 4;                   // then: each copying warp, of up to four, has as many
constexpr int kMostTeamRingBytes = 154 * 1024;  // family sm90, few columns: see choose_ring_of_teams
constexpr int kSwizzleRegion = 1024;  // where rows of 128 bytes are swizzled by tensor maps and found again by wgmma

int align_region(int bytes) { return (bytes + kRegion - 1) / kRegion * kRegion; }

std::string why_not_sm80(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  if (is_of_sm90_alone(descriptor.tile_n))
    return fmt::format("its blocks have 256, 64 or 32 columns, not {}", descriptor.tile_n);
  if (!architecture.cp_async) return "it needs cp.async, which sm_80 brought";
  if (!architecture.ldmatrix) return "it needs ldmatrix";
  if (!architecture.has_mma({16, 8, 16, codegen::MmaType::fp16})) return "it needs mma.sync m16n8k16";
  return "";
}

std::string why_not_few_columns(const W4a16Gemm& descriptor) {
  return descriptor.tile_n < gemm_lanes::kBlockColumns
             ? fmt::format("its blocks have 256 columns, not {}", descriptor.tile_n)
             : "";
}

std::string why_not_sm90(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  if (!architecture.wgmma && descriptor.tile_n < gemm_lanes::kBlockColumns)
    return "its blocks of few columns are written for sm_90a";
  if (!architecture.wgmma) return "it needs wgmma, which sm_90a alone has";
  if (std::string why = why_not_boxes(descriptor); !why.empty()) return why;
  return descriptor.tile_n < gemm_lanes::kBlockColumns ? why_not_boxes_of_few_columns(descriptor) : "";
}

std::string why_not_sm75(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  if (!architecture.ldmatrix) return "it needs ldmatrix";
  if (std::string why = why_not_few_columns(descriptor); !why.empty()) return why;
  return why_not_all_fp16(descriptor);
}

/// Without a family in the descriptor the first that fits is chosen, unless is_sm90_faster says otherwise.
constexpr FamilyFacts<W4a16Gemm> kFamilies[] = {
    {"sm80", "sm80_w4a16_gemm", "kernels/sm80_w4a16_gemm.cuh", "sm_80 and later", why_not_sm80},
    {"sm90", "sm90_w4a16_gemm", "kernels/sm90_w4a16_gemm.cuh", "sm_90a", why_not_sm90},
    {"sm75", "sm75_w4a16_gemm", "kernels/sm80_w4a16_gemm.cuh", "sm_75 and later", why_not_sm75}};

/// What an H200 has shown (docs/performance/w4a16_gemm.md): with up to 16 rows wgmma takes nearly as long as with 32,
/// and mma.sync does not; in blocks of few columns both families have mma.sync, and sm90 the faster copies.
bool is_sm90_faster(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  return (descriptor.tile_m >= 32 || descriptor.tile_n < gemm_lanes::kBlockColumns) &&
         why_not_sm90(descriptor, architecture).empty();
}

PreferredFamily preference_of(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  if (is_sm90_faster(descriptor, architecture)) return {"sm90", "family sm90 is faster there"};
  return {kAnyFamily, "family sm80 is faster there with most sizes"};
}

/// Registers that the loop keeps live, by counting its arrays: of each strip words, an operand, zeros and scales, and
/// of each of its tiles of 8 rows sums and products; of each 8 rows activations. With activation order there are no
/// products, but two terms of all operands of a step.
int count_registers(const W4a16Gemm& descriptor, int strips, int row_tiles) {
  constexpr int kAddressesAndTemporaries = 26;
  constexpr int kWordsOperandAndFactors = 4 + 4 + 12;
  constexpr int kOrderedOperands = 48;
  const int operands = descriptor.activation_order ? kOrderedOperands : 0;
  const int per_tile = strips * (descriptor.activation_order ? 8 : 8 + 8) + 4;
  return (kAddressesAndTemporaries + operands + strips * kWordsOperandAndFactors + row_tiles * per_tile + 7) / 8 * 8;
}

/// Family sm75: of a stage's bytes, what a thread holds until they can be stored.
int count_held_registers(const W4a16Gemm& descriptor, int strips) {
  const int threads = 32 * gemm_lanes::kStrips / strips;
  const int words = gemm_lanes::kStageK * gemm_lanes::kBlockColumns * descriptor.bits / 8;
  const int activations = std::max(16 * threads, descriptor.tile_m * gemm_lanes::kActivationBytes);  // pieces of 16
  const int factors = stages_factors(descriptor) ? 4 + (stores_zeros(descriptor) ? descriptor.bits / 4 : 0) : 0;
  return (words + activations) / (4 * threads) + factors;
}

/// Whether a warp has registers for two strips of columns, for which activations are picked once. Family sm75: beside
/// the next stage, of which bytes take twice as many as nibbles, and not beside two terms of operands: its compiler
/// spilled.
bool fits_two_strips(const Plan& plan) {
  const W4a16Gemm& descriptor = plan.descriptor;
  if (plan.family != "sm75") return descriptor.tile_m <= 32;
  return descriptor.bits == 4 && !descriptor.activation_order && descriptor.tile_m <= 16;
}

/// Family sm80. Gated, two such sums at a time would not leave registers for as many loads; of 32 rows of bytes the
/// compiler spilled with four, and of awq's groups of 32, which are unrolled, in bf16 with two.
int most_merged_tiles(const W4a16Gemm& descriptor) {
  if (descriptor.is_gated()) return 1;
  const bool unrolls_four_groups = descriptor.group_size == 32 && descriptor.tile_m == 16;
  if (descriptor.format == W4Format::awq && descriptor.element == Element::bf16 && unrolls_four_groups) return 1;
  return descriptor.bits == 8 && descriptor.tile_m == 32 ? 2 : kMostMergedTiles;
}

void choose_tiles(Plan& plan) {
  const W4a16Gemm& descriptor = plan.descriptor;
  const int groups = stage_groups(descriptor);
  const int strips = fits_two_strips(plan) && plan.strips() > 1 ? 2 : 1;
  plan.warps = plan.strips() / strips;
  if (plan.family == "sm80")
    plan.merged_tiles = std::min(most_merged_tiles(descriptor), strips * descriptor.tile_m / 8);
  plan.held_registers = plan.family == "sm75" ? count_held_registers(descriptor, strips) : 0;
  plan.counted_registers =
      (count_registers(descriptor, strips, descriptor.tile_m / 8) + plan.held_registers + 7) / 8 * 8;
  plan.copy_bytes = descriptor.alignment;
  const int in_row = descriptor.format == W4Format::awq ? 1 : word_weights(descriptor);
  plan.words.rows = gemm_lanes::kStageK / in_row;
  plan.words.row_bytes = gemm_lanes::kStageK * descriptor.tile_n * descriptor.bits / 8 / plan.words.rows;
  plan.words = codegen::search_layout(plan.words.rows, plan.words.row_bytes, 16, word_accesses(plan));
  plan.activations =
      codegen::search_layout(descriptor.tile_m, gemm_lanes::kActivationBytes, 16, activation_accesses(plan));
  if (descriptor.activation_order) return;
  plan.scales = {groups, 2 * descriptor.tile_n, 2 * descriptor.tile_n, {}};
  const int zero_bytes = descriptor.tile_n * descriptor.bits / 8;
  if (stores_zeros(descriptor)) plan.zeros = {groups, zero_bytes, zero_bytes, {}};
}

/// Boxes of `part` bytes of each row as their copies leave them, one behind the other. Where a part is 32, 64 or 128
/// bytes, tensor maps can swizzle its chunks of 16.
codegen::TileLayout box_layout(int rows, int row_bytes, int part) {
  const bool is_swizzled = part == 32 || part == 64 || part == 128;
  const int bits = is_swizzled ? std::countr_zero(static_cast<unsigned>(part / 16)) : 0;
  return {rows, row_bytes, part, {bits, 4, 7}, part};
}

codegen::TileLayout plain_box_layout(int rows, int row_bytes, int part) { return {rows, row_bytes, part, {}, part}; }

/// Tiles of blocks of 256 columns.
void choose_boxes(Plan& plan) {
  const W4a16Gemm& descriptor = plan.descriptor;
  plan.warps = gemm_lanes::kStrips;
  plan.copy_warps = 4;
  plan.copy_registers = 72;
  plan.multiply_registers = 216;
  const bool by_n = descriptor.format == W4Format::awq;
  plan.words = by_n ? box_layout(gemm_lanes::kStageK, gemm_lanes::kBlockColumns / 2, 64)
                    : box_layout(gemm_lanes::kStageK / 8, 4 * gemm_lanes::kBlockColumns, 128);
  plan.activations = box_layout(descriptor.tile_m, gemm_lanes::kActivationBytes, 128);
  const int groups = stage_groups(descriptor);
  plan.scales = plain_box_layout(groups, gemm_lanes::kScaleBytes, gemm_lanes::kScaleBytes / 2);
  if (stores_zeros(descriptor)) plan.zeros = {groups, gemm_lanes::kZeroBytes, gemm_lanes::kZeroBytes, {}};
  plan.blocks_per_sm = 1;
  plan.merged_tiles = std::min(kMostMergedTiles, descriptor.tile_m / 8);
}

/// Of a warp between two stages, see sm90_w4a16_gemm_narrow.cuh: as measured with zeros in groups of 128, whose copy
/// takes as long as two rests. By n, whose rows are short, more.
int copy_rests(const W4a16Gemm& descriptor) {
  constexpr int kOfZeros = 2;
  struct Rests {
    int columns;
    int rows_8, rows_16;
    int by_n_rows_8, by_n_rows_16;
  };
  constexpr Rests kMeasured[] = {{64, 1, 0, 4, 3}, {128, 1, 0, 2, 0}};
  const bool by_n = descriptor.format == W4Format::awq;
  const int copied_groups = stores_zeros(descriptor) ? stage_groups(descriptor) : 0;
  for (const Rests& rests : kMeasured) {
    if (rests.columns != descriptor.tile_n) continue;
    const int of_8 = by_n ? rests.by_n_rows_8 : rests.rows_8;
    const int of_16 = by_n ? rests.by_n_rows_16 : rests.rows_16;
    const int measured = descriptor.tile_m > 8 ? of_16 : of_8;
    return measured > 0 ? std::max(0, measured + kOfZeros * (1 - copied_groups)) : 0;
  }
  return 0;
}

/// Blocks of few columns in the same boxes.
void choose_boxes_of_teams(Plan& plan) {
  const W4a16Gemm& descriptor = plan.descriptor;
  choose_boxes(plan);
  plan.warps = 1;
  plan.teams = kMostTeams;
  plan.copy_registers = 24;
  plan.multiply_registers = 240;
  plan.merged_tiles = 1;
  const int columns = descriptor.tile_n;
  // As measured: the fewer the warps that copy, the more stages arrive in order, as long as they are fast enough.
  if (columns > 64) plan.copy_warps = 2;
  if (columns == 224) plan.copy_warps = descriptor.tile_m > 8 ? 2 : 1;
  plan.copy_rests = copy_rests(descriptor);
  const int neighbours = output_columns(descriptor, columns);
  if (descriptor.format == W4Format::awq) {
    plan.words = box_layout(gemm_lanes::kStageK, columns / 2, neighbours / 2);
  } else {
    plan.words.row_bytes = 4 * columns;
  }
  plan.scales = plain_box_layout(plan.scales.rows, 2 * columns, 2 * neighbours);
  if (stores_zeros(descriptor)) plan.zeros = {plan.zeros.rows, columns / 2, columns / 2, {}};
}

/// As many stages as fit: a block has a multiprocessor to itself.
void take_stages(Plan& plan, const codegen::Architecture& architecture, int most) {
  for (int stages = kFewestStages - 1; stages <= most; ++stages) {
    if (plan.bytes_for(stages) > architecture.shared_memory_per_block) break;
    plan.stages = stages;
    plan.shared_memory = plan.bytes_for(stages);
  }
}

/// Of few columns not as many as fit: more than the memory's latency wants only keep it from other blocks, unless a
/// team takes longer for a stage than its copies.
void choose_ring_of_teams(Plan& plan, const codegen::Architecture& architecture) {
  const bool is_slow = plan.descriptor.tile_n >= 160 && plan.descriptor.tile_m > 8;
  const int most_bytes = is_slow ? architecture.shared_memory_per_block : kMostTeamRingBytes;
  for (int stages = plan.teams; stages <= kMostTeamStages; stages += kStageStep) {
    if (plan.bytes_for(stages) > most_bytes) break;
    plan.stages = stages;
  }
  if (plan.stages == 0) return;
  plan.has_sums_apart = plan.bytes_for(plan.stages) + plan.team_sum_bytes() <= architecture.shared_memory_per_block;
  plan.shared_memory = plan.bytes_for(plan.stages);
}

void choose_stages(Plan& plan, const codegen::Architecture& architecture, int fewest) {
  const Ring ring = choose_ring(
      fewest, kMostStages, plan.stage_bytes(), kBytesInFlight, [&](int stages) { return plan.bytes_for(stages); },
      [&](int shared) { return resident_blocks(architecture, plan.threads(), plan.counted_registers, shared); });
  plan.stages = ring.stages;
  plan.blocks_per_sm = ring.blocks_per_sm;
  plan.shared_memory = ring.shared_memory;
}

/// Blocks of few columns: as many teams as fit with two stages each, up to 8, and then as many stages as fit.
void choose_teams(Plan& plan, const codegen::Architecture& architecture) {
  for (plan.teams = kMostTeams; plan.teams > 1; plan.teams /= 2)
    if (plan.bytes_for(kFewestStages - 1) <= architecture.shared_memory_per_block) break;
  take_stages(plan, architecture, kMostStages);
  plan.blocks_per_sm = 1;
}

/// Family sm75: one stage in shared memory, as the next one is in registers, and as many blocks as fit.
void choose_blocks(Plan& plan, const codegen::Architecture& architecture) {
  const int shared = plan.bytes_for(1);
  plan.counted_registers = std::min(plan.counted_registers, architecture.registers_per_thread);
  plan.blocks_per_sm = resident_blocks(architecture, plan.threads(), plan.counted_registers, shared);
  plan.shared_memory = shared;
  plan.stages = plan.blocks_per_sm > 0 ? 1 : 0;
}

}  // namespace

int stage_groups(const W4a16Gemm& descriptor) {
  return descriptor.group_size == 0 ? 1 : gemm_lanes::kStageK / descriptor.group_size;
}

bool has_pairs(const Plan& plan) {
  return plan.family == "sm90" && plan.teams == 1 && !plan.descriptor.is_gated() && plan.descriptor.tile_m >= 16;
}

bool shares_k(const Plan& plan) { return plan.teams == 1 || (has_copied_teams(plan) && plan.descriptor.tile_n < 224); }

bool has_copied_teams(const Plan& plan) { return plan.family == "sm90" && plan.teams > 1; }

bool has_many_rows(const Plan& plan) { return plan.family == "sm90" && plan.descriptor.tile_m > 32; }

bool reorders_activations(const Plan& plan) { return has_many_rows(plan) && plan.descriptor.format != W4Format::awq; }

bool spreads_words(const W4a16Gemm& descriptor) { return descriptor.group_size != 32; }

int Plan::block_columns() const { return output_columns(descriptor, descriptor.tile_n); }

int Plan::strips() const { return descriptor.tile_n / gemm_lanes::kStripColumns; }

int Plan::activations_at() const { return align_region(words.size()); }

int Plan::scales_at() const {
  return has_copied_teams(*this) ? 0 : align_region(activations_at() + activations.size());
}

int Plan::zeros_at() const { return align_region(scales_at() + scales.size()); }

int Plan::factor_bytes() const { return has_copied_teams(*this) ? align_region(zeros_at() + zeros.size()) : 0; }

int Plan::stage_bytes() const {
  if (has_copied_teams(*this)) return activations_at() + activations.size();
  if (family == "sm90") return (zeros_at() + zeros.size() + kSwizzleRegion - 1) / kSwizzleRegion * kSwizzleRegion;
  if (!stages_factors(descriptor)) return scales_at();
  return stores_zeros(descriptor) ? align_region(zeros_at() + zeros.size()) : zeros_at();
}

int Plan::barriers_at(int stage_count) const { return stage_count * (stage_bytes() + factor_bytes()); }

int Plan::ups_at(int stage_count) const { return align_region(barriers_at(stage_count) + barrier_bytes(stage_count)); }

int Plan::barrier_bytes(int stage_count) const {
  return gemm_lanes::kStageBarrierBytes * stage_count + (teams == 1 ? gemm_lanes::kClusterBarrierBytes : 0);
}

int Plan::bytes_for(int stage_count) const {
  if (family == "sm90") {
    const int ups = gemm_lanes::kBlockColumns / 2 * descriptor.tile_m * static_cast<int>(sizeof(float));
    if (has_sums_apart) return ups_at(stage_count) + team_sum_bytes();
    return ups_at(stage_count) + (descriptor.is_gated() && teams == 1 ? ups : 0);
  }
  return teams * ring_bytes(stage_count);
}

int Plan::ring_bytes(int stage_count) const {
  int factors = 0;
  if (descriptor.group_size == 0) factors = zeros_at() + (stores_zeros(descriptor) ? zeros.size() : 0) - scales_at();
  return align_region(stage_count * stage_bytes() + factors);
}

int Plan::team_sum_bytes() const {
  return teams * descriptor.tile_n * descriptor.tile_m * static_cast<int>(sizeof(float));
}

int Plan::counters_per_tile() const {
  if (has_copied_teams(*this)) return output_columns(descriptor, strips()) * descriptor.tile_m / 8;
  const int pairs = descriptor.is_gated() ? std::max(1, warps / 2) : 0;
  if (descriptor.atomic_splits) return warps + pairs;
  return pairs > 0 ? pairs : warps;
}

Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  Plan plan = make_plan_without_report(descriptor, architecture);
  write_report(plan, architecture);
  return plan;
}

Plan make_plan_without_report(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  Plan plan;
  plan.descriptor = descriptor;
  plan.family = choose_family<W4a16Gemm>(
      plan.report, kFamilies, descriptor, architecture, preference_of(descriptor, architecture),
      "sm_80 and later, tile_n=96 to 224 on sm_90a; sm_75 with element=fp16 and without tile_n");
  if (plan.family == "sm90") {
    if (descriptor.tile_n < gemm_lanes::kBlockColumns) {
      choose_boxes_of_teams(plan);
      choose_ring_of_teams(plan, architecture);
    } else {
      choose_boxes(plan);
      take_stages(plan, architecture, kMostBoxStages);
    }
  } else {
    choose_tiles(plan);
  }
  if (plan.family == "sm75") {
    choose_blocks(plan, architecture);
  } else if (plan.family == "sm80" && descriptor.tile_n < gemm_lanes::kBlockColumns) {
    choose_teams(plan, architecture);
  } else if (plan.family == "sm80") {
    // Stages of bytes are twice as large: rather a second block than a third stage.
    choose_stages(plan, architecture, descriptor.bits == 8 ? kFewestStages - 1 : kFewestStages);
    if (plan.stages == 0) choose_stages(plan, architecture, kFewestStages - 1);
  }
  if (plan.stages == 0) {
    throw Failure(Status::internal, descriptor.text(), fmt::format("no stage count fits {}", architecture.name));
  }
  return plan;
}

}  // namespace cubit::ops::w4a16_gemm
