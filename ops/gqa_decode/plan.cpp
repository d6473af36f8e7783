// From a descriptor and an architecture to tiles, stages and layouts. Pure: values in, values out. Which family:
// families.cpp; the kernel's text: source.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/ring.hpp"

namespace cubit::ops::gqa_decode {
namespace {

constexpr int kMostStages = 6;
constexpr int kMostRegistersOfTiles = 216;       // counted without offsets; more heads are another block's
constexpr int kMostRegistersOfManyTiles = 256;   // the same beside query operands in shared memory
constexpr int kMostRegistersBesideCopies = 192;  // family sm75: some of the next tile is there; sm90: copying warps
constexpr int kStagesBesideRegisters = 2;        // family sm75: one in use, one that registers are stored to
constexpr int kFewestStages = 3;                 // one in use, one landed or landing, one on its way
constexpr int kMostColumnGroups = 4;             // more would read shared memory more often than it has time for
constexpr int kFewestWarps = 4;                  // family sm90, that attend: of stages of any size so many have room
constexpr int kWarpgroup = 4;                    // warps that make products together
constexpr int kRowsOfProducts = 64;              // of a warpgroup

/// Of what the formats keep for a tile of heads: shifts, sums and headers; or the second term of bf16 weights, or
/// scales of two tiles.
int registers_of(const kv_cache::CacheFormats& formats) {
  const auto count = [](const kv_cache::RowFormat& format) {
    if (format.kv == KvFormat::int4_rows) return 6 + format.groups;
    return 4 + (format.has_scales() && format.scales != KvScales::tensor ? 4 * format.groups : 0);
  };
  constexpr int kBoth = 4;
  return std::max(count(formats.key), count(formats.value)) + (formats.are_alike() ? 0 : kBoth);
}

/// Registers that the loop keeps live, by counting its arrays. Blocks per SM are chosen so that each thread is allowed
/// at least these; the compiler may use all that it is then allowed, and its report says what it does. `copies`: whose
/// offsets are kept.
int count_registers(const GqaDecode& descriptor, int head_tiles, int copies) {
  constexpr int kAddressesAndTemporaries = 52;
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const int outputs = formats.value.head_dim / 4;
  const bool two_terms = descriptor.kv == KvFormat::bf16 && descriptor.query == Element::fp16;
  const int query = descriptor.head_dim / 8 * (two_terms ? 2 : 1);
  // Beside 8 groups, what query tokens see was too much for two tiles: some architecture's compiler spilled.
  const int seen = has_eight_packed_groups(formats) && descriptor.query_tokens > 1 ? 10 : 0;
  const int per_tile = outputs + query + registers_of(formats) + seen + 12;  // 12: scores, references, sums, factors
  const int window = descriptor.window ? 4 : 0;
  const int slopes = descriptor.alibi ? 2 : 0;
  return (kAddressesAndTemporaries + copies + window + head_tiles * (per_tile + slopes) + 7) / 8 * 8;
}

/// The same where query operands are in shared memory: of head tiles there are outputs, scores and products of a tile
/// of tokens, references and sums, and what the formats keep is shared by them.
int count_registers_beside_shared_query(const GqaDecode& descriptor, int head_tiles) {
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
  const int seen = has_eight_packed_groups(formats) && descriptor.query_tokens > 1 ? 32 : 0;  // as above
  const int beside = kAddressesAndTemporaries + 2 * scales + both + pages + seen + (descriptor.window ? 8 : 0);
  return (beside + head_tiles * per_tile + 7) / 8 * 8;
}

/// With more of any, some architecture's compiler spilled.
bool fits_beside_shared_query(const GqaDecode& descriptor, int head_tiles) {
  constexpr int kMostOutputs = 128;
  constexpr int kMostCentredTiles = 5;
  const int outputs = head_tiles * kv_cache::formats_of(descriptor).value.head_dim / 4;
  return outputs <= kMostOutputs && (!centres_nibbles(descriptor) || head_tiles <= kMostCentredTiles) &&
         count_registers_beside_shared_query(descriptor, head_tiles) <= kMostRegistersOfManyTiles;
}

/// Few of them: 5% of the time of packed words. The compilers of later architectures spilled a word.
bool keeps_offsets_of_many_tiles(const Plan& plan, const codegen::Architecture& architecture, int copies) {
  return copies <= 8 && architecture.capability < 100 && plan.descriptor.cache == KvAddressing::contiguous;
}

/// Query operands in shared memory leave room for a third warp per scheduler, which hides what two wait for; bytes gain
/// by it, packed words do not (an H200).
bool makes_room_for_warps(const GqaDecode& descriptor, int head_tiles) {
  constexpr int kMostOfThree = 168;
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  return formats.key.has_scales() && formats.value.has_scales() && head_tiles > 1 &&
         count_registers(descriptor, head_tiles, 0) > kMostOfThree &&
         count_registers_beside_shared_query(descriptor, head_tiles) <= kMostOfThree;
}

/// Rows of 16-bit values are operands as they are: what several blocks make of them costs little, and their loop has
/// time.
bool unpacks_rows(const GqaDecode& descriptor) {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const auto unpacks = [](const kv_cache::RowFormat& format) {
    return format.kv == KvFormat::int4_rows || format.has_scales();
  };
  return unpacks(formats.key) || unpacks(formats.value);
}

/// `counted`: without the offsets. With more of either, some architecture's compiler spilled.
bool keeps_offsets(int copies, int counted) {
  return (copies <= 20 && counted <= 192) || (copies <= 24 && counted <= 160);
}

/// As few as make a multiple of 16 bytes.
int warps_of_unaligned_rows(const Plan& plan) { return 16 / std::gcd(plan.descriptor.row_bytes(), 16); }

/// As few blocks per KV head as registers allow, of as many heads each; with query operands in shared memory where that
/// makes fewer, or in family sm90 with several warps for the same rows.
void choose_head_groups(Plan& plan, const codegen::Architecture& architecture) {
  const int heads = plan.heads();
  plan.heads_are_rows = plan.family == "sm90" && makes_products_by_heads(plan.descriptor, architecture);
  if (plan.heads_are_rows) {
    plan.column_groups = kWarpgroup;
    plan.head_groups = (heads + kRowsOfProducts - 1) / kRowsOfProducts;
    const int each = kWarpgroup * plan.head_groups;
    plan.heads_per_block = (heads + each - 1) / each * kWarpgroup;
    return;
  }
  const int tiles = (heads + 7) / 8;
  const auto blocks_of = [tiles](int tiles_per_block) { return (tiles + tiles_per_block - 1) / tiles_per_block; };
  int tiles_per_block = 1;
  // Family sm90: as many warps as can be for the same rows, which is faster than more columns in each, where rows are
  // operands as they are. Of packed words two tiles took more registers than there are.
  const bool shares_rows =
      plan.descriptor.kv == KvFormat::int4_rows || (tiles <= kMostColumnGroups && !has_scales(plan.descriptor.kv));
  const int most = plan.family == "sm90" && shares_rows ? 1 : tiles;
  const int registers = plan.family == "sm80" ? kMostRegistersOfTiles : kMostRegistersBesideCopies;
  while (tiles_per_block < most && count_registers(plan.descriptor, tiles_per_block + 1, 0) <= registers) {
    ++tiles_per_block;
  }
  if (plan.family == "sm80" && unpacks_rows(plan.descriptor)) {
    int many = tiles_per_block;
    while (many < tiles && fits_beside_shared_query(plan.descriptor, many + 1)) ++many;
    const bool makes_fewer = blocks_of(many) < blocks_of(tiles_per_block);
    if (makes_fewer) tiles_per_block = many;
    plan.query_is_shared = makes_fewer || makes_room_for_warps(plan.descriptor, tiles_per_block);
  }
  int blocks = blocks_of(tiles_per_block);
  if (plan.family == "sm90") {
    const int most_groups =
        plan.copies_unaligned_rows() ? kFewestWarps / warps_of_unaligned_rows(plan) : kMostColumnGroups;
    while (plan.column_groups < std::min(blocks, most_groups)) plan.column_groups *= 2;
    blocks = blocks_of(tiles_per_block * plan.column_groups);
  }
  const int each = blocks * plan.column_groups;
  plan.heads_per_block = (heads + each - 1) / each * plan.column_groups;
  plan.head_groups = (heads + plan.heads_per_block - 1) / plan.heads_per_block;
}

int shared_memory_for(const Plan& plan, int stages) {
  return plan.family == "sm90" ? plan.scratch_at(stages) + plan.scratch_bytes() : plan.barriers_at(stages);
}

void choose_stages(Plan& plan, const codegen::Architecture& architecture) {
  const bool holds_tiles = plan.family == "sm75";  // the one under way is in registers
  const Ring ring = choose_ring(
      holds_tiles ? kStagesBesideRegisters : kFewestStages, holds_tiles ? kStagesBesideRegisters : kMostStages,
      plan.warps * plan.stage_bytes(), kBytesInFlight, [&](int stages) { return shared_memory_for(plan, stages); },
      [&](int shared) { return resident_blocks(architecture, 32 * plan.warps, plan.counted_registers, shared); });
  plan.stages = ring.stages;
  plan.blocks_per_sm = ring.blocks_per_sm;
  plan.shared_memory = ring.shared_memory;
}

/// The widest copy that the caller's alignment and the format's parts allow.
int choose_copy_bytes(const Plan& plan) {
  int bytes = std::gcd(plan.descriptor.alignment, 16);
  for (const std::size_t which : {0, 1}) {
    const kv_cache::RowFormat format = plan.formats()[which];
    bytes = std::gcd(bytes, std::gcd(format.header_bytes(), format.row_bytes()));
  }
  return bytes;
}

/// Family sm75: as much of the next tile as the loop leaves registers for. The compilers of later architectures keep
/// more besides, and an address of each piece in two registers.
int choose_held_pieces(const Plan& plan, const codegen::Architecture& architecture) {
  const bool is_later = architecture.capability >= 100;
  const int spare = is_later ? 64 : 40;
  constexpr int kMostPieces = 32;  // each is code
  const int each = plan.copy_bytes / 4 + (is_later ? 2 : 0);
  const int free = architecture.registers_per_thread - spare - count_registers(plan.descriptor, plan.head_tiles(), 0);
  return std::clamp(free / each, 1, std::min(kMostPieces, count_copies(plan)));
}

void choose_copies(Plan& plan, const codegen::Architecture& architecture) {
  const GqaDecode& descriptor = plan.descriptor;
  plan.copy_bytes = choose_copy_bytes(plan);
  const kv_cache::CacheFormats formats = plan.formats();
  const auto search = [](int rows, const kv_cache::RowFormat& format, std::span<const codegen::TileAccess> accesses) {
    return codegen::search_layout(rows, stage_row_bytes(format), 16, accesses);
  };
  plan.stage = search(formats.are_alike() ? 32 : 16, formats.key, stage_accesses(plan));
  if (!formats.are_alike()) plan.value_stage = search(16, formats.value, value_stage_accesses(plan));
  const int copies = count_copies(plan);
  const int counted = plan.query_is_shared ? count_registers_beside_shared_query(descriptor, plan.head_tiles())
                                           : count_registers(descriptor, plan.head_tiles(), 0);
  // A count over the most that a thread can have is the count's mistake, not the kernel's: it counts all of a loop at
  // once.
  plan.counted_registers =
      std::min(plan.query_is_shared ? counted : count_registers(descriptor, plan.head_tiles(), copies),
               architecture.registers_per_thread);
  plan.keep_offsets = keeps_offsets(copies, counted) ||
                      (plan.query_is_shared && keeps_offsets_of_many_tiles(plan, architecture, copies));
  plan.slot_period = slot_period(plan);
  if (plan.family == "sm75") {
    plan.held_pieces = choose_held_pieces(plan, architecture);
    plan.keep_offsets = false;  // every piece is tested for its row's existence as well: there is one path
    plan.counted_registers =
        std::min(count_registers(descriptor, plan.head_tiles(), 0) + plan.held_pieces * plan.copy_bytes / 4,
                 architecture.registers_per_thread);
  }
  // A warp for each scheduler of an SM, or half as many where their stages do not fit.
  for (const int warps : {4, 2}) {
    plan.warps = warps;
    choose_stages(plan, architecture);
    if (plan.stages > 0) return;
  }
}

/// The swizzle that tensor maps have: chunks of 16 bytes change places within 128, 64 or 32 bytes, by the number of 128
/// bytes that they are in. It sets eight rows in different banks where a row is an odd number of what it is within;
/// where that is 128 and the number even, rows are cut into parts, as they are for products by heads. Copies within 64
/// bytes take a tenth longer on an H200. Unaligned rows have none: those of the warps abreast are an odd number of 16
/// bytes.
codegen::TileLayout layout_of_boxes(const Plan& plan) {
  constexpr int kWidest = 128;
  const int rows = 16 * plan.tiles_per_stage;
  if (plan.copies_unaligned_rows()) {
    const int abreast = plan.warps_abreast() * plan.descriptor.row_bytes();
    return {rows * plan.row_warps() / plan.warps_abreast(), abreast, abreast, {}};
  }
  const int row = plan.row_warps() * plan.descriptor.row_bytes();
  const int within = std::gcd(row, kWidest);
  const codegen::Swizzle swizzle{std::countr_zero(static_cast<unsigned>(within / 16)), 4, 7};
  if (plan.heads_are_rows && within != kWidest) {
    throw Failure(Status::internal, plan.descriptor.text(),
                  fmt::format("rows of {} bytes are no operands of wgmma, which reads parts of {}", row, kWidest));
  }
  if (!plan.heads_are_rows && row / within % 2 == 1) return {rows, row, row, swizzle};
  return {rows, row, within, swizzle, within};
}

/// Family sm90: whether no warp asks where its rows are in the sequence, nor which of several has which columns.
bool counts_rows(const Plan& plan) {
  return plan.column_groups == 1 && plan.descriptor.query_tokens == 1 && modifications(plan.descriptor).empty();
}

/// Of 8 warps that attend and 4 that copy a thread has at most 168 registers, more than copying needs and fewer than
/// packed words of two tiles want. Copying unaligned rows, in either kind of pieces, needs some more.
void choose_registers(Plan& plan, const codegen::Architecture& architecture) {
  const bool is_plain = counts_rows(plan);
  const bool moves =
      architecture.register_transfer && plan.warps == 8 && (plan.descriptor.kv == KvFormat::int4_rows || !is_plain);
  const bool copies_little = is_plain && !plan.copies_unaligned_rows();
  plan.copy_registers = !moves ? 0 : copies_little ? 72 : 88;
  plan.attend_registers = !moves ? 0 : copies_little ? 216 : 208;
}

/// Products by heads of two warpgroups: the outputs and the query of a thread, beside what tokens and scores ask for.
/// The compiler spilled 80 bytes of a query of 192 channels whose operands are half zeros.
bool fits_two_warpgroups(const Plan& plan) {
  const GqaDecode& descriptor = plan.descriptor;
  const bool two_terms = descriptor.kv == KvFormat::bf16 && descriptor.query == Element::fp16;
  const bool is_plain = descriptor.query_tokens == 1 && modifications(descriptor).empty();
  return descriptor.head_dim <= (two_terms ? 64 : is_plain && plan.heads_per_warp() > 8 ? 192 : 128);
}

/// Whether the compiler spills nothing: with more it did, for more is live at once than the count knows of.
bool fits_registers(const Plan& plan, const codegen::Architecture& architecture) {
  const GqaDecode& descriptor = plan.descriptor;
  const bool two_tiles = plan.tiles_per_stage > 1;
  if (plan.heads_are_rows) return plan.warps < 8 || fits_two_warpgroups(plan);
  if (two_tiles && (plan.head_tiles() > 1 || descriptor.head_dim > 128)) return false;
  if (plan.warps < 8) return true;
  // Where registers change hands the compilers of sm_100a and sm_120a spilled what that of sm_90a does not.
  const bool is_later = architecture.capability >= 100;
  if (is_later && plan.attend_registers > 0 && (plan.head_tiles() > 1 || descriptor.head_dim > 128)) return false;
  const bool is_plain = counts_rows(plan);
  if (is_later && centres_nibbles(descriptor) && descriptor.groups == 8 && !is_plain) return false;
  if (has_scales(descriptor.kv)) {
    if (!is_plain && plan.attend_registers == 0) return false;
    const int most_groups = descriptor.head_dim > 128 ? 2 : two_tiles ? 4 : 8;  // beside places in pages
    return descriptor.head_dim <= 192 &&
           (descriptor.cache == KvAddressing::contiguous || descriptor.groups <= most_groups);
  }
  if (descriptor.kv != KvFormat::int4_rows)
    return plan.attend_registers == 0 || plan.counted_registers <= plan.attend_registers;
  if (plan.attend_registers > 0)
    return descriptor.head_dim * descriptor.groups <= 1024 && (is_plain || descriptor.head_dim < 256);
  if (plan.copies_unaligned_rows() && descriptor.groups > 1 && !is_plain) return false;
  return plan.head_tiles() == 1 && descriptor.head_dim <= 128 && (descriptor.groups <= 4 || (is_plain && !two_tiles));
}

/// The compilers of later architectures keep more of a loop's invariants than there are registers for beside many
/// groups of packed rows, and spilled up to 380 bytes of 256 channels in 8 groups.
bool recomputes_lanes(const Plan& plan, const codegen::Architecture& architecture) {
  constexpr int kMany = 1024;
  const auto has_many = [](const kv_cache::RowFormat& format) {
    return format.kv == KvFormat::int4_rows && format.head_dim * format.groups >= kMany;
  };
  return architecture.capability >= 100 && (has_many(plan.formats().key) || has_many(plan.formats().value));
}

/// One block per SM, which is resident from beginning to end: two warps for each scheduler of an SM, or fewer where
/// three stages of them do not fit, and the ones that copy. Stages of two tiles, where registers allow: their
/// instructions are independent, and a stage's own cost is shared. Then as many stages as fit, up to one in use and
/// bytes_in_flight().
void choose_bulk_copies(Plan& plan, const codegen::Architecture& architecture) {
  constexpr int kFewestBulkStages = 2;
  const int fewest_row_warps = plan.copies_unaligned_rows() ? warps_of_unaligned_rows(plan) : 1;
  const int places = counts_rows(plan) ? 0 : 16;
  plan.counted_registers =
      std::min(count_registers(plan.descriptor, plan.head_tiles(), 0) + places, architecture.registers_per_thread);
  plan.blocks_per_sm = 1;
  plan.copy_warps = 4;
  plan.copy_bytes = choose_copy_bytes(plan);
  for (const int fewest : {kFewestStages, kFewestBulkStages}) {
    for (plan.warps = 8; plan.warps >= plan.column_groups * fewest_row_warps; plan.warps /= 2) {
      for (const int tiles : {2, 1}) {
        plan.tiles_per_stage = tiles;
        choose_registers(plan, architecture);
        if (!fits_registers(plan, architecture)) continue;
        plan.stage = layout_of_boxes(plan);
        const int most = std::clamp(1 + bytes_in_flight(plan) / plan.stage_bytes(), fewest, kMostStages);
        for (plan.stages = most; plan.stages >= fewest; --plan.stages) {
          plan.shared_memory = shared_memory_for(plan, plan.stages);
          const int registers = plan.attend_registers > 0 ? 0 : plan.counted_registers;
          if (resident_blocks(architecture, plan.threads(), registers, plan.shared_memory) > 0) return;
        }
      }
    }
  }
  plan.stages = 0;
}

}  // namespace

bool reads_row_scales(const Plan& plan) {
  const kv_cache::RowFormat keys = plan.formats().key;
  return keys.has_scales() && keys.scales != KvScales::tensor;
}

bool Plan::evicts_first() const { return family == "sm90" && head_groups == 1 && !reads_row_scales(*this); }

bool Plan::keeps_pace() const {
  return family == "sm90" && descriptor.cache == KvAddressing::contiguous && head_groups == 1 && column_groups == 1 &&
         formats().key.kv == KvFormat::int4_rows;
}

int Plan::stages_at_once() const {
  return std::min(stages, std::max(2, (kBytesAtOnce + stage_bytes() / 2) / stage_bytes()));
}

bool Plan::staggers() const {
  return family == "sm90" && descriptor.kv == KvFormat::int4_rows && descriptor.cache == KvAddressing::contiguous &&
         descriptor.query_tokens == 1 && modifications(descriptor).empty();
}

int bytes_in_flight(const Plan& plan) { return plan.keeps_pace() ? kBytesInFlightAtPace : kBytesInFlight; }

int Plan::warps_abreast() const { return copies_unaligned_rows() ? warps_of_unaligned_rows(*this) : row_warps(); }

bool has_eight_packed_groups(const kv_cache::CacheFormats& formats) {
  const auto has = [](const kv_cache::RowFormat& format) {
    return format.kv == KvFormat::int4_rows && format.groups == 8;
  };
  return has(formats.key) || has(formats.value);
}

Plan make_plan(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  Plan plan;
  plan.descriptor = descriptor;
  choose_family(plan, architecture);
  choose_head_groups(plan, architecture);
  plan.recomputes_lanes = recomputes_lanes(plan, architecture);
  if (plan.family == "sm90") {
    choose_bulk_copies(plan, architecture);
  } else {
    choose_copies(plan, architecture);
  }
  if (plan.stages == 0) {
    throw Failure(Status::internal, plan.descriptor.text(), fmt::format("no stage count fits {}", architecture.name));
  }
  write_report(plan, architecture);
  return plan;
}

}  // namespace cubit::ops::gqa_decode
