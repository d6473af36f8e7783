// Planning steps that the kernel families of gqa_decode share: registers, query rows per block, vector copies.
#include "ops/gqa_decode/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops::gqa_decode {
namespace {

/// Registers that the formats keep for a tile of query rows: shifts, sums and headers of packed rows; the second term
/// of bf16 weights; or the scales of two tiles.
int registers_of(const kv_cache::CacheFormats& formats) {
  const auto count = [](const kv_cache::RowFormat& format) {
    if (format.kv == KvFormat::int4_rows) return 6 + format.groups;
    return 4 + (format.has_scales() && format.scales != KvScales::tensor ? 4 * format.groups : 0);
  };
  constexpr int kBoth = 4;
  return std::max(count(formats.key), count(formats.value)) + (formats.are_alike() ? 0 : kBoth);
}

/// Whether a plan sets CommonPlan::recomputes_lanes. The compilers for later architectures keep more of the loop's
/// invariants than there are registers for, next to many groups of packed rows: with 256 channels in 8 groups they
/// spilled up to 380 bytes.
bool recomputes_lanes(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  constexpr int kMany = 1024;
  const auto has_many = [](const kv_cache::RowFormat& format) {
    return format.kv == KvFormat::int4_rows && format.head_dim * format.groups >= kMany;
  };
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  return architecture.capability >= 100 && (has_many(formats.key) || has_many(formats.value));
}

}  // namespace

bool has_eight_packed_groups(const kv_cache::CacheFormats& formats) {
  const auto has = [](const kv_cache::RowFormat& format) {
    return format.kv == KvFormat::int4_rows && format.groups == 8;
  };
  return has(formats.key) || has(formats.value);
}

int count_registers(const GqaDecode& descriptor, int head_tiles, int copies) {
  constexpr int kAddressesAndTemporaries = 52;
  constexpr int kScores = 12;  // scores, references, sums and factors of a tile
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const int outputs = formats.value.head_dim / 4;
  const bool two_terms = descriptor.kv == KvFormat::bf16 && descriptor.query == Element::fp16;
  const int query = descriptor.head_dim / 8 * (two_terms ? 2 : 1);
  // With 8 groups and several query tokens, some architecture's compiler spilled two tiles.
  const int masks = has_eight_packed_groups(formats) && descriptor.query_tokens > 1 ? 10 : 0;
  const int per_tile = outputs + query + registers_of(formats) + masks + kScores;
  const int window = descriptor.window ? 4 : 0;
  const int slopes = descriptor.alibi ? 2 : 0;
  return (kAddressesAndTemporaries + copies + window + head_tiles * (per_tile + slopes) + 7) / 8 * 8;
}

int count_head_tiles(const GqaDecode& descriptor, int most, int registers) {
  int tiles = 1;
  while (tiles < most && count_registers(descriptor, tiles + 1, 0) <= registers) ++tiles;
  return tiles;
}

void divide_heads(CommonPlan& plan, int tiles_per_warp, int query_groups) {
  const int heads = plan.heads();
  const int tiles = (heads + 7) / 8;
  const int tiles_per_block = tiles_per_warp * query_groups;
  const int blocks = (tiles + tiles_per_block - 1) / tiles_per_block;
  const int warps_of_heads = blocks * query_groups;
  plan.heads_per_warp = (heads + warps_of_heads - 1) / warps_of_heads;
  plan.heads_per_block = plan.heads_per_warp * query_groups;
  plan.head_groups = (heads + plan.heads_per_block - 1) / plan.heads_per_block;
}

int choose_copy_bytes(const GqaDecode& descriptor) {
  int bytes = descriptor.alignment_bytes();
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  for (const std::size_t which : {0, 1}) {
    const kv_cache::RowFormat format = formats[which];
    bytes = std::gcd(bytes, std::gcd(format.header_bytes(), format.row_bytes()));
  }
  return bytes;
}

void begin_plan(CommonPlan& plan, const GqaDecode& descriptor, const codegen::Architecture& architecture,
                PlanReport report) {
  plan.descriptor = descriptor;
  plan.pointers = pointer_checks(descriptor);
  plan.report = std::move(report);
  plan.recomputes_lanes = recomputes_lanes(descriptor, architecture);
}

void require_stages(const CommonPlan& plan, const codegen::Architecture& architecture) {
  if (plan.stages > 0) return;
  throw Failure(Status::internal, plan.descriptor.text(), fmt::format("no stage count fits {}", architecture.name));
}

}  // namespace cubit::ops::gqa_decode
