// Kernel family sm80: from a descriptor and an architecture to a plan, and from the plan to the plan header.
#include <algorithm>
#include <bit>
#include <utility>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/gqa_decode/report.hpp"
#include "ops/gqa_decode/sm80/sm80.hpp"

namespace cubit::ops::gqa_decode::sm80 {
namespace {

constexpr int kFewestStages = 3;  // one in use, one landed or landing, one in flight
constexpr int kMostStages = 6;
constexpr int kMostRegistersOfTiles = 216;      // counted without offsets; more query rows belong to another block
constexpr int kMostRegistersOfManyTiles = 256;  // the same if query operands are in shared memory

/// count_registers() for query operands in shared memory. A tile of query rows has outputs, scores and products of a
/// tile of tokens, references and sums; the tiles share what the formats keep.
int count_registers_with_shared_query(const GqaDecode& descriptor, int head_tiles) {
  constexpr int kAddressesAndTemporaries = 60;
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const int packed_groups = std::max(formats.key.kv == KvFormat::int4_rows ? formats.key.groups : 0,
                                     formats.value.kv == KvFormat::int4_rows ? formats.value.groups : 0);
  const int scales = std::max({packed_groups, 4, formats.key.has_scales() ? 4 * formats.key.groups : 0,
                               formats.value.has_scales() ? 4 * formats.value.groups : 0});
  const int shifts = (packed_groups + 3) / 4 * 2;
  const int second_term = formats.value.kv == KvFormat::bf16 ? 4 : 0;  // of weights
  const int per_tile = formats.value.head_dim / 4 + shifts + second_term + 12 + (descriptor.alibi ? 2 : 0);
  // Headers in the stage and scales in a tensor, each with its addresses.
  const bool has_both = formats.key.kv == KvFormat::int4_rows && formats.value.has_scales();
  const bool is_paged = descriptor.cache == KvAddressing::paged;
  const int both = !has_both ? 0 : has_eight_packed_groups(formats) && is_paged ? 48 : 16;
  const int pages = is_paged ? 4 : 0;
  const int masks = has_eight_packed_groups(formats) && descriptor.query_tokens > 1 ? 32 : 0;
  const int shared = kAddressesAndTemporaries + 2 * scales + both + pages + masks + (descriptor.window ? 8 : 0);
  return (shared + head_tiles * per_tile + 7) / 8 * 8;
}

/// Whether so many tiles fit if query operands are in shared memory. With more, some architecture's compiler spilled.
bool fits_with_shared_query(const GqaDecode& descriptor, int head_tiles) {
  constexpr int kMostOutputs = 128;
  constexpr int kMostCentredTiles = 5;
  const int outputs = head_tiles * kv_cache::formats_of(descriptor).value.head_dim / 4;
  return outputs <= kMostOutputs && (!centres_nibbles(descriptor) || head_tiles <= kMostCentredTiles) &&
         count_registers_with_shared_query(descriptor, head_tiles) <= kMostRegistersOfManyTiles;
}

/// Whether query operands in shared memory leave room for a third warp per scheduler, which hides latencies that two
/// warps wait for. Bytes gain by a third warp, packed words do not (an H200).
bool makes_room_for_warps(const GqaDecode& descriptor, int head_tiles) {
  constexpr int kMostOfThree = 168;
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  return formats.key.has_scales() && formats.value.has_scales() && head_tiles > 1 &&
         count_registers(descriptor, head_tiles, 0) > kMostOfThree &&
         count_registers_with_shared_query(descriptor, head_tiles) <= kMostOfThree;
}

/// Whether a block unpacks rows before it multiplies them. Rows of 16-bit values are operands as they are: several
/// blocks read them again at little cost, because their loop has time.
bool unpacks_rows(const GqaDecode& descriptor) {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const auto unpacks = [](const kv_cache::RowFormat& format) {
    return format.kv == KvFormat::int4_rows || format.has_scales();
  };
  return unpacks(formats.key) || unpacks(formats.value);
}

/// Whether registers hold the offsets of so many copies. `counted`: registers without the offsets. With more of either,
/// some architecture's compiler spilled.
bool fits_offsets(int copies, int counted) {
  return (copies <= 20 && counted <= 192) || (copies <= 24 && counted <= 160);
}

/// The same next to query operands in shared memory, for few copies: kept offsets are worth 5% of the time of packed
/// words. The compilers for later architectures spilled a word.
bool fits_offsets_of_many_tiles(const Plan& plan, const codegen::Architecture& architecture, int copies) {
  return copies <= 8 && architecture.capability < 100 && plan.descriptor.cache == KvAddressing::contiguous;
}

/// As few blocks per KV head as registers allow, of as many query rows each. Query operands move to shared memory if
/// that makes fewer blocks, or room for a third warp per scheduler.
void choose_head_groups(Plan& plan) {
  const GqaDecode& descriptor = plan.descriptor;
  const int tiles = (plan.heads() + 7) / 8;
  const auto blocks_of = [tiles](int tiles_per_block) { return (tiles + tiles_per_block - 1) / tiles_per_block; };
  int tiles_per_block = count_head_tiles(descriptor, tiles, kMostRegistersOfTiles);
  if (unpacks_rows(descriptor)) {
    int many = tiles_per_block;
    while (many < tiles && fits_with_shared_query(descriptor, many + 1)) ++many;
    const bool makes_fewer = blocks_of(many) < blocks_of(tiles_per_block);
    if (makes_fewer) tiles_per_block = many;
    plan.query_is_shared = makes_fewer || makes_room_for_warps(descriptor, tiles_per_block);
  }
  divide_heads(plan, tiles_per_block, 1);
}

/// A count over the most registers that a thread can have is a mistake of the count, which counts all of a loop at
/// once; hence the minimum.
void choose_registers(Plan& plan, const codegen::Architecture& architecture) {
  const GqaDecode& descriptor = plan.descriptor;
  const int copies = count_copies(plan);
  const int counted = plan.query_is_shared ? count_registers_with_shared_query(descriptor, plan.head_tiles())
                                           : count_registers(descriptor, plan.head_tiles(), 0);
  plan.counted_registers =
      std::min(plan.query_is_shared ? counted : count_registers(descriptor, plan.head_tiles(), copies),
               architecture.registers_per_thread);
  plan.keep_offsets =
      fits_offsets(copies, counted) || (plan.query_is_shared && fits_offsets_of_many_tiles(plan, architecture, copies));
}

/// The formats' kQueryWords, which are a multiple of 4.
int query_words(const Plan& plan) {
  const kv_cache::RowFormat keys = plan.formats().key;
  const auto padded = [](int words) { return (words + 3) / 4 * 4; };
  constexpr int kFactors = 2;
  if (keys.kv == KvFormat::int4_rows)
    return padded(keys.head_dim / 8 + 2 * (padded_header_bytes(keys) / 16) + kFactors);
  if (keys.has_scales()) return padded(keys.head_dim / 8 + kFactors);
  const int terms = keys.kv == KvFormat::bf16 && plan.descriptor.query == Element::fp16 ? 2 : 1;
  return padded(terms * padded(keys.head_dim / 8) + kFactors);
}

}  // namespace

int Plan::query_bytes() const { return query_is_shared ? head_tiles() * query_words(*this) * 4 * lanes::kWarpSize : 0; }

int Plan::partials_at_once() const {
  const bool rows_of_whole_warps = formats().value.head_dim / 4 % lanes::kWarpSize == 0;
  if (!rows_of_whole_warps) return 0;
  const int room = ring_bytes(stages) - kArrivedWordBytes - 8 * threads();
  return std::min<int>(lanes::kWarpSize,
                       static_cast<int>(std::bit_floor(static_cast<unsigned>(room / (16 * threads())))));
}

Plan make_plan(const GqaDecode& descriptor, const codegen::Architecture& architecture, PlanReport report) {
  Plan plan;
  begin_plan(plan, descriptor, architecture, std::move(report));
  choose_head_groups(plan);
  plan.copy_bytes = choose_copy_bytes(descriptor);
  choose_layouts(plan, kCopies);
  choose_registers(plan, architecture);
  choose_stages(plan, architecture, kFewestStages, kMostStages, plan.query_bytes());
  require_stages(plan, architecture);
  const std::vector<Tile> partials = partial_tiles(plan);
  write_report(plan, {.tiles = report_tiles(plan, kCopies, query_tiles(plan), partials),
                      .memory = memory_map(plan, plan.query_bytes(), partials),
                      .decisions = decisions_of(plan, architecture),
                      .fragments = mma_fragments(plan, architecture)});
  return plan;
}

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture) {
  return warp_ring::make_source(plan,
                                {.header = "pipeline/tile_copies_async.cuh",
                                 .type = "cubit::AsyncTileCopies<kCopyBytes, kStages>",
                                 .keep_offsets = plan.keep_offsets,
                                 .query_is_shared = plan.query_is_shared,
                                 .query_at = plan.query_is_shared ? plan.ring_bytes(plan.stages) : 0,
                                 .query_bytes = plan.query_bytes(),
                                 .partials_at_once = plan.partials_at_once()},
                                architecture);
}

}  // namespace cubit::ops::gqa_decode::sm80
