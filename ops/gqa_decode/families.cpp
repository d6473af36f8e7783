// Which kernel family a descriptor gets on an architecture, and why not another.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
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

/// A kernel family; why_not is empty where it can be chosen.
struct FamilyFacts {
  Family family;
  std::string_view name;
  std::string_view kernel;  ///< template
  std::string (*why_not)(const GqaDecode&, const codegen::Architecture&);
};
/// Without a family in the descriptor the first that fits is chosen, unless is_sm90_faster says otherwise.
constexpr FamilyFacts kFamilies[] = {{Family::sm80, "sm80_gqa_decode", "sm80_gqa_decode.cuh", why_not_sm80},
                                     {Family::sm90, "sm90_gqa_decode", "sm90_gqa_decode.cuh", why_not_sm90},
                                     {Family::sm75, "sm75_gqa_decode", "sm80_gqa_decode.cuh", why_not_sm75}};

/// What an H200 has shown (docs/performance/gqa_decode.md): one tile of columns, two of several tokens over bytes,
/// four of 16-bit caches, whose rows are operands as they are, any number where warpgroups make the products.
/// Of later architectures nothing is known, nor of packed words without registers that change hands, nor of bytes
/// otherwise than with 128 channels and one scale for a row or for all. Of unaligned rows plain scores of one token and
/// 128 channels were timed; that the rest is faster as well is taken from rows of 4 groups.
bool is_sm90_faster(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  if (descriptor.kv == KvFormat::int4_rows && !architecture.register_transfer) return false;
  if (has_scales(descriptor.kv) && (descriptor.head_dim != 128 || descriptor.groups > 1)) return false;
  const bool is_plain = descriptor.query_tokens == 1 && modifications(descriptor).empty();
  const bool by_heads = makes_products_by_heads(descriptor, architecture);
  const bool is_measured = by_heads || (descriptor.cache == KvAddressing::contiguous &&
                                        (!has_scales(descriptor.kv) || modifications(descriptor).empty()));
  if (!is_plain && !(is_measured && descriptor.score.empty())) return false;
  const int most_of_bytes = descriptor.query_tokens > 1 ? 16 : 8;  // of one token's 16 only 4 warps have room
  const int most_columns = descriptor.kv == KvFormat::int4_rows ? 8 : has_scales(descriptor.kv) ? most_of_bytes : 32;
  const bool fits = by_heads || descriptor.heads_per_kv * descriptor.query_tokens <= most_columns;
  return architecture.capability == 90 && fits && why_not_sm90(descriptor, architecture).empty();
}

}  // namespace

std::string_view kernel_of(Family family) {
  return std::find_if(std::begin(kFamilies), std::end(kFamilies),
                      [&](const FamilyFacts& candidate) { return candidate.family == family; })
      ->kernel;
}

bool makes_products_by_heads(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  constexpr int kMostColumnsOtherwise = 16;
  const bool is_16bit = descriptor.kv == KvFormat::bf16 || descriptor.kv == KvFormat::fp16;
  const bool is_all_bf16 = descriptor.kv == KvFormat::bf16 && descriptor.query == Element::bf16;
  const int most_channels = is_all_bf16 ? 192 : 128;
  return architecture.wgmma && is_16bit && descriptor.head_dim % 64 == 0 && descriptor.head_dim <= most_channels &&
         descriptor.heads_per_kv * descriptor.query_tokens > kMostColumnsOtherwise;
}

void choose_family(Plan& plan, const codegen::Architecture& architecture) {
  Family wanted = plan.descriptor.family;
  std::string_view other = "the descriptor names another";
  if (wanted == Family::automatic && is_sm90_faster(plan.descriptor, architecture)) {
    wanted = Family::sm90;
    other = "family sm90 is faster there";
  }
  std::string reasons;
  for (const FamilyFacts& candidate : kFamilies) {
    std::string why = candidate.why_not(plan.descriptor, architecture);
    if (why.empty() && wanted != Family::automatic && wanted != candidate.family) why = other;
    if (why.empty() && plan.report.family.empty()) {
      plan.family = candidate.family;
      plan.report.family = candidate.name;
    } else {
      plan.report.rejections.push_back({std::string(candidate.name), why.empty() ? "an earlier family fits" : why});
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", candidate.name, why);
    }
  }
  if (!plan.report.family.empty()) return;
  throw Failure(Status::unsupported, fmt::format("{} for {}", plan.descriptor.text(), architecture.name),
                fmt::format("no kernel family runs there ({})", reasons),
                wanted == Family::sm90 ? "accepted: sm_90 and later"
                                       : "accepted: sm_80 and later; sm_75 with query=fp16, output=fp16 and a cache "
                                         "without bf16");
}

}  // namespace cubit::ops::gqa_decode
