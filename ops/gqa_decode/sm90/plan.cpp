// Kernel family sm90: from a descriptor and an architecture to tiles, stages, registers and layouts.
#include "ops/gqa_decode/sm90/sm90.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops::gqa_decode::sm90 {
namespace {

constexpr int kMostStages = 6;
constexpr int kFewestStages = 3;            // one in use, one landed or landing, one in flight
constexpr int kMostRegistersOfTiles = 192;  // counted without offsets; producer warps have the rest
constexpr int kMostQueryGroups = 4;         // more would read shared memory more often than it has time for
constexpr int kFewestWarps = 4;             // consumer warps that have room with stages of any size
constexpr int kWarpgroup = 4;               // warps of a warpgroup MMA
constexpr int kRowsOfWarpgroup = 64;        // query rows of a warpgroup MMA
/// Bytes in flight per SM if copies are paced: room for copies to run ahead while a sequence ends.
constexpr int kBytesInFlightPaced = 128 * 1024;
/// Bytes that an SM requests at its beginning if copies are paced. Twice as much costs 1 us of 42
/// (bench/notes/gqa_decode.md, "Copy pacing").
constexpr int kInitialBytes = 80 * 1024;

/// The smallest number of warps whose rows together have a multiple of 16 bytes.
int warps_of_unaligned_rows(const GqaDecode& descriptor) { return 16 / std::gcd(descriptor.row_bytes(), 16); }

/// Warpgroup MMAs: as few blocks per KV head as 64 query rows each allow.
void choose_rows_of_warpgroups(Plan& plan) {
  const int heads = plan.heads();
  plan.query_groups = kWarpgroup;
  plan.head_groups = (heads + kRowsOfWarpgroup - 1) / kRowsOfWarpgroup;
  const int each = kWarpgroup * plan.head_groups;
  plan.heads_per_warp = (heads + each - 1) / each;
  plan.heads_per_block = plan.heads_per_warp * kWarpgroup;
}

/// As few blocks per KV head as registers allow. Rows that are operands as they are get as many query groups as
/// possible, which is faster than more tiles of query rows in each warp. Packed words get one tile, because two tiles
/// took more registers than there are.
void choose_head_groups(Plan& plan, const codegen::Architecture& architecture) {
  const GqaDecode& descriptor = plan.descriptor;
  plan.heads_are_m = uses_warpgroup_mma(descriptor, architecture);
  if (plan.heads_are_m) return choose_rows_of_warpgroups(plan);
  const int tiles = (plan.heads() + 7) / 8;
  const bool has_one_tile =
      descriptor.kv == KvFormat::int4_rows || (tiles <= kMostQueryGroups && !has_scales(descriptor.kv));
  const int tiles_per_warp = count_head_tiles(descriptor, has_one_tile ? 1 : tiles, kMostRegistersOfTiles);
  const int warps = (tiles + tiles_per_warp - 1) / tiles_per_warp;
  const int most_groups =
      plan.copies_unaligned_rows() ? kFewestWarps / warps_of_unaligned_rows(descriptor) : kMostQueryGroups;
  while (plan.query_groups < std::min(warps, most_groups)) plan.query_groups *= 2;
  divide_heads(plan, tiles_per_warp, plan.query_groups);
}

int shared_memory_for(const Plan& plan, int stages) { return plan.scratch_at(stages) + plan.scratch_bytes(); }

/// The swizzle of tensor maps: chunks of 16 bytes change places within 128, 64 or 32 bytes, as the number of the 128
/// bytes that they are in says. Eight rows lie in different banks if a row is an odd number of what the swizzle is
/// within. If the swizzle is within 128 bytes and the number is even, rows are cut into parts, as they are for
/// warpgroup MMAs. Swizzles within 64 bytes make copies a tenth slower on an H200. Unaligned rows have no swizzle: the
/// rows of the interleaved warps are an odd number of 16 bytes.
codegen::TileLayout layout_of_boxes(const Plan& plan) {
  constexpr int kWidest = 128;
  const int rows = 16 * plan.tiles_per_stage;
  if (plan.copies_unaligned_rows()) {
    const int row = plan.interleaved_warps() * plan.descriptor.row_bytes();
    return {rows * plan.token_warps() / plan.interleaved_warps(), row, row, {}};
  }
  const int row = plan.token_warps() * plan.descriptor.row_bytes();
  const int within = std::gcd(row, kWidest);
  const codegen::Swizzle swizzle{std::countr_zero(static_cast<unsigned>(within / 16)), 4, 7};
  if (plan.heads_are_m && within != kWidest) {
    throw Failure(
        Status::internal, plan.descriptor.text(),
        fmt::format("wgmma reads parts of {1} bytes, and rows of {0} bytes are no multiple of that", row, kWidest));
  }
  if (!plan.heads_are_m && row / within % 2 == 1) return {rows, row, row, swizzle};
  return {rows, row, within, swizzle, within};
}

/// Whether no warp asks where its rows are in the sequence, nor which query rows it has.
bool is_plain(const Plan& plan) {
  return plan.query_groups == 1 && plan.descriptor.query_tokens == 1 && modifications(plan.descriptor).empty();
}

/// With 8 consumer and 4 producer warps a thread has at most 168 registers: more than copies need, and fewer than
/// packed words of two tiles want. Copies of unaligned rows need some more, with boxes and with vectors.
void choose_registers(Plan& plan, const codegen::Architecture& architecture) {
  const bool has_plain_scores = is_plain(plan);
  const bool moves = architecture.register_transfer && plan.warps == 8 &&
                     (plan.descriptor.kv == KvFormat::int4_rows || !has_plain_scores);
  const bool copies_little = has_plain_scores && !plan.copies_unaligned_rows();
  plan.producer_registers = !moves ? 0 : copies_little ? 72 : 88;
  plan.consumer_registers = !moves ? 0 : copies_little ? 216 : 208;
}

/// Whether registers hold the outputs and the query of a thread of two warpgroups, next to what tokens and scores ask
/// for. The compiler spilled 80 bytes of a query of 192 channels whose operands are half zeros.
bool fits_two_warpgroups(const Plan& plan) {
  const GqaDecode& descriptor = plan.descriptor;
  const bool two_terms = descriptor.kv == KvFormat::bf16 && descriptor.query == Element::fp16;
  const bool has_plain_scores = descriptor.query_tokens == 1 && modifications(descriptor).empty();
  return descriptor.head_dim <= (two_terms ? 64 : has_plain_scores && plan.heads_per_warp > 8 ? 192 : 128);
}

/// Whether the compiler spills nothing. Beyond these limits it spilled, because more is live at once than the count
/// knows of.
bool fits_registers(const Plan& plan, const codegen::Architecture& architecture) {
  const GqaDecode& descriptor = plan.descriptor;
  const bool two_tiles = plan.tiles_per_stage > 1;
  if (plan.heads_are_m) return plan.warps < 8 || fits_two_warpgroups(plan);
  if (two_tiles && (plan.head_tiles() > 1 || descriptor.head_dim > 128)) return false;
  if (plan.warps < 8) return true;
  // With register transfer the compilers for sm_100a and sm_120a spilled what the compiler for sm_90a does not spill.
  const bool is_later = architecture.capability >= 100;
  if (is_later && plan.consumer_registers > 0 && (plan.head_tiles() > 1 || descriptor.head_dim > 128)) return false;
  const bool has_plain_scores = is_plain(plan);
  if (is_later && centres_nibbles(descriptor) && descriptor.groups == 8 && !has_plain_scores) return false;
  if (has_scales(descriptor.kv)) {
    if (!has_plain_scores && plan.consumer_registers == 0) return false;
    const int most_groups = descriptor.head_dim > 128 ? 2 : two_tiles ? 4 : 8;  // next to places in pages
    return descriptor.head_dim <= 192 &&
           (descriptor.cache == KvAddressing::contiguous || descriptor.groups <= most_groups);
  }
  if (descriptor.kv != KvFormat::int4_rows)
    return plan.consumer_registers == 0 || plan.counted_registers <= plan.consumer_registers;
  if (plan.consumer_registers > 0)
    return descriptor.head_dim * descriptor.groups <= 1024 && (has_plain_scores || descriptor.head_dim < 256);
  if (plan.copies_unaligned_rows() && descriptor.groups > 1 && !has_plain_scores) return false;
  return plan.head_tiles() == 1 && descriptor.head_dim <= 128 &&
         (descriptor.groups <= 4 || (has_plain_scores && !two_tiles));
}

/// One block per SM, which is resident from beginning to end: two consumer warps for each scheduler of an SM, or fewer
/// if three stages of them do not fit, and the producer warps. Stages have two tiles if registers allow: the
/// instructions of two tiles are independent, and they share a stage's own cost. The plan then takes as many stages as
/// fit, up to one in use and bytes_in_flight().
void choose_stages(Plan& plan, const codegen::Architecture& architecture) {
  constexpr int kFewestBulkStages = 2;
  const int fewest_row_warps = plan.copies_unaligned_rows() ? warps_of_unaligned_rows(plan.descriptor) : 1;
  const int places = is_plain(plan) ? 0 : 16;
  plan.counted_registers =
      std::min(count_registers(plan.descriptor, plan.head_tiles(), 0) + places, architecture.registers_per_thread);
  plan.blocks_per_sm = 1;
  plan.producer_warps = 4;
  plan.copy_bytes = choose_copy_bytes(plan.descriptor);
  for (const int fewest : {kFewestStages, kFewestBulkStages}) {
    for (plan.warps = 8; plan.warps >= plan.query_groups * fewest_row_warps; plan.warps /= 2) {
      for (const int tiles : {2, 1}) {
        plan.tiles_per_stage = tiles;
        choose_registers(plan, architecture);
        if (!fits_registers(plan, architecture)) continue;
        plan.stage = layout_of_boxes(plan);
        const int most = std::clamp(1 + bytes_in_flight(plan) / plan.stage_bytes(), fewest, kMostStages);
        for (plan.stages = most; plan.stages >= fewest; --plan.stages) {
          plan.shared_memory = shared_memory_for(plan, plan.stages);
          const int registers = plan.consumer_registers > 0 ? 0 : plan.counted_registers;
          if (resident_blocks(architecture, plan.threads(), registers, plan.shared_memory) > 0) return;
        }
      }
    }
  }
  plan.stages = 0;
}

}  // namespace

bool uses_warpgroup_mma(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  constexpr int kMostRowsOtherwise = 16;
  const bool is_16bit = descriptor.kv == KvFormat::bf16 || descriptor.kv == KvFormat::fp16;
  const bool is_all_bf16 = descriptor.kv == KvFormat::bf16 && descriptor.query == Element::bf16;
  const int most_channels = is_all_bf16 ? 192 : 128;
  return architecture.wgmma && is_16bit && descriptor.head_dim % 64 == 0 && descriptor.head_dim <= most_channels &&
         descriptor.heads_per_kv * descriptor.query_tokens > kMostRowsOtherwise;
}

bool reads_row_scales(const CommonPlan& plan) {
  const kv_cache::RowFormat keys = plan.formats().key;
  return keys.has_scales() && keys.scales != KvScales::tensor;
}

int bytes_in_flight(const Plan& plan) { return plan.paces_copies() ? kBytesInFlightPaced : kBytesInFlight; }

int Plan::interleaved_warps() const {
  return copies_unaligned_rows() ? warps_of_unaligned_rows(descriptor) : token_warps();
}

int Plan::segment_end_stages() const { return std::max(1, 48 * 1024 / stage_bytes()); }

int Plan::sequence_overhead_stages() const { return std::max(1, 120 * 1024 / stage_bytes()); }

bool Plan::evicts_first() const { return head_groups == 1 && !reads_row_scales(*this); }

bool Plan::paces_copies() const {
  return descriptor.cache == KvAddressing::contiguous && head_groups == 1 && query_groups == 1 &&
         formats().key.kv == KvFormat::int4_rows;
}

int Plan::initial_stages() const {
  return std::min(stages, std::max(2, (kInitialBytes + stage_bytes() / 2) / stage_bytes()));
}

bool Plan::offsets_start() const {
  return descriptor.kv == KvFormat::int4_rows && descriptor.cache == KvAddressing::contiguous &&
         descriptor.query_tokens == 1 && modifications(descriptor).empty();
}

int Plan::cluster_exchange_bytes() const {
  const int half = 4 * formats().value.head_dim / 2;
  return token_warps() * heads_per_block * (half + 8);
}

bool Plan::merges_in_cluster() const { return cluster_exchange_bytes() <= ring_bytes(stages); }

int Plan::results_at(int stage_count) const { return (ring_bytes(stage_count) + 15) / 16 * 16; }

int Plan::results_bytes() const { return merge_bytes(*this, token_warps(), merge_pitch(*this, heads_are_m)); }

int Plan::barriers_at(int stage_count) const { return (results_at(stage_count) + results_bytes() + 15) / 16 * 16; }

Plan make_plan(const GqaDecode& descriptor, const codegen::Architecture& architecture, PlanReport report) {
  Plan plan;
  begin_plan(plan, descriptor, architecture, std::move(report));
  choose_head_groups(plan, architecture);
  choose_stages(plan, architecture);
  require_stages(plan, architecture);
  report_plan(plan, architecture);
  return plan;
}

}  // namespace cubit::ops::gqa_decode::sm90
