// Which kernel family a descriptor gets on an architecture, and why not another.
#include <fmt/format.h>

#include "ops/families.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops::gqa_decode {
namespace {

std::string why_not_sm80(const GqaDecode&, const codegen::Architecture& architecture) {
  if (!architecture.cp_async) return "it needs cp.async, which sm_80 brought";
  if (!architecture.ldmatrix || !architecture.movmatrix) return "it needs ldmatrix and movmatrix";
  if (!architecture.has_mma({16, 8, 16, codegen::MmaType::fp16})) return "it needs mma.sync m16n8k16";
  return "";
}

bool are_alike(const GqaDecode& descriptor) { return kv_cache::formats_of(descriptor).are_alike(); }

std::string why_not_sm90(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  if (!architecture.bulk_copy) return "it needs cp.async.bulk.tensor, which sm_90 brought";
  if (!are_alike(descriptor)) return kOneFormatOnly;
  if (!is_usual_head_dim(descriptor.head_dim)) return kUsualHeadDimsOnly;
  return why_not_bulk_copies(descriptor);
}

std::string why_not_sm75(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  if (!architecture.ldmatrix || !architecture.movmatrix) return "it needs ldmatrix and movmatrix";
  return why_not_all_fp16(descriptor);
}

/// Without a family in the descriptor the first that fits is chosen, unless sm90 is preferred.
constexpr FamilyFacts<GqaDecode> kFamilies[] = {
    {"sm80", "sm80_gqa_decode", "kernels/sm80_gqa_decode.cuh", "sm_80 and later", why_not_sm80},
    {"sm90", "sm90_gqa_decode", "kernels/sm90_gqa_decode.cuh", "sm_90 and later", why_not_sm90},
    {"sm75", "sm75_gqa_decode", "kernels/sm80_gqa_decode.cuh", "sm_75 and later", why_not_sm75}};

/// What an H200 has shown (docs/performance/gqa_decode_sm90.md): empty where family sm90 is the faster one. It is with
/// one tile of columns, two of several tokens over bytes, four of 16-bit caches, whose rows are operands as they are,
/// any number where warpgroups make the products. Of unaligned rows plain scores of one token and 128 channels were
/// timed; that the rest is faster as well is taken from rows of 4 groups.
std::string why_not_faster(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  if (architecture.capability != 90) return "it was timed on sm_90 alone";
  const bool are_packed = descriptor.kv == KvFormat::int4_rows;
  const bool are_bytes = has_scales(descriptor.kv);
  if (are_packed && !architecture.register_transfer)
    return "packed words were timed where registers change hands alone";
  if (are_bytes && (descriptor.head_dim != 128 || descriptor.groups > 1))
    return "bytes were timed with 128 channels and without groups alone";
  if (makes_products_by_heads(descriptor, architecture) && descriptor.score.empty()) return "";
  const bool is_plain = descriptor.query_tokens == 1 && modifications(descriptor).empty();
  if (!is_plain) {
    if (!descriptor.score.empty()) return "a user's score modification was not timed in it";
    if (descriptor.cache != KvAddressing::contiguous)
      return "of pages plain scores of one query token alone were timed in it";
    if (are_bytes && !modifications(descriptor).empty()) return "of bytes plain scores alone were timed in it";
  }
  const int most_of_bytes = descriptor.query_tokens > 1 ? 16 : 8;  // of one token's 16 only 4 warps have room
  const int most_columns = are_packed ? 8 : are_bytes ? most_of_bytes : 32;
  const int columns = descriptor.heads_per_kv * descriptor.query_tokens;
  if (columns > most_columns)
    return fmt::format("family sm80 is faster with {} columns (heads_per_kv times query_tokens; sm90 up to {})",
                       columns, most_columns);
  return "";
}

PreferredFamily preference_of(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  if (!why_not_sm90(descriptor, architecture).empty()) return {kAnyFamily, "family sm80 is faster there"};
  std::string why = why_not_faster(descriptor, architecture);
  if (why.empty()) return {"sm90", "family sm90 is faster there"};
  return {kAnyFamily, std::move(why)};
}

}  // namespace

std::string_view kernel_of(std::string_view family) { return facts_of<GqaDecode>(kFamilies, family).kernel; }

bool makes_products_by_heads(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  constexpr int kMostColumnsOtherwise = 16;
  const bool is_16bit = descriptor.kv == KvFormat::bf16 || descriptor.kv == KvFormat::fp16;
  const bool is_all_bf16 = descriptor.kv == KvFormat::bf16 && descriptor.query == Element::bf16;
  const int most_channels = is_all_bf16 ? 192 : 128;
  return architecture.wgmma && is_16bit && descriptor.head_dim % 64 == 0 && descriptor.head_dim <= most_channels &&
         descriptor.heads_per_kv * descriptor.query_tokens > kMostColumnsOtherwise;
}

void choose_family(Plan& plan, const codegen::Architecture& architecture) {
  plan.family = ops::choose_family<GqaDecode>(
      plan.report, kFamilies, plan.descriptor, architecture, preference_of(plan.descriptor, architecture),
      "sm_80 and later; sm_75 with query=fp16, output=fp16 and a cache without bf16");
}

}  // namespace cubit::ops::gqa_decode
