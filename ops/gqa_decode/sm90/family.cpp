// Kernel family sm90: what it serves, and where measurements prefer it.
#include <fmt/format.h>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/gqa_decode/sm90/sm90.hpp"

namespace cubit::ops::gqa_decode::sm90 {
namespace {

constexpr const char* kOneFormatOnly = "its keys and values have one format and one head_dim";
constexpr const char* kUsualHeadDimsOnly = "it takes head_dim=64, 96, 128, 192 and 256";

/// Whether head_dim is a power of two or three times a power of two.
constexpr bool is_usual_head_dim(int head_dim) {
  const int odd = head_dim / (head_dim & -head_dim);
  return odd == 1 || odd == 3;
}

bool are_alike(const GqaDecode& descriptor) { return kv_cache::formats_of(descriptor).are_alike(); }

/// Why no bulk copy can move the descriptor's rows; empty if one can.
std::string why_not_bulk_copies(const GqaDecode& descriptor) {
  if (!has_unaligned_rows(descriptor)) {
    return descriptor.alignment_bytes() < 16 ? "every pointer and stride must be a multiple of 16 bytes" : "";
  }
  const int row = descriptor.row_bytes();
  if (descriptor.cache == KvAddressing::paged)
    return fmt::format("rows of a paged cache must be a multiple of 16 bytes, and these are {}", row);
  if (row % descriptor.alignment_bytes() == 0) return "";
  return fmt::format("rows of {} bytes follow one another only with alignment={}", row, row % 8 == 0 ? "8 or 4" : "4");
}

/// Returns why the operator does not prefer this family for the descriptor, or an empty text where measurements on an
/// H200 showed this family to be the fastest (bench/notes/gqa_decode.md). The family is the fastest with one tile of
/// query rows, with two tiles of several query tokens over bytes, with four tiles of 16-bit caches, whose rows are
/// operands as they are, and with any number of tiles where warpgroups compute. Of unaligned rows plain scores of one
/// query token and 128 channels were timed; the rest is taken from rows of 4 groups.
std::string why_not_faster(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  if (architecture.capability != 90) return "it was timed on sm_90 alone";
  const bool are_packed = descriptor.kv == KvFormat::int4_rows;
  const bool are_bytes = has_scales(descriptor.kv);
  if (are_packed && !architecture.register_transfer)
    return "packed words were timed where registers change hands alone";
  if (are_bytes && (descriptor.head_dim != 128 || descriptor.groups > 1))
    return "bytes were timed with 128 channels and without groups alone";
  if (uses_warpgroup_mma(descriptor, architecture) && descriptor.score.empty()) return "";
  const bool is_plain = descriptor.query_tokens == 1 && modifications(descriptor).empty();
  if (!is_plain) {
    if (!descriptor.score.empty()) return "a user's score modification was not timed in it";
    if (descriptor.cache != KvAddressing::contiguous)
      return "of pages plain scores of one query token alone were timed in it";
    if (are_bytes && !modifications(descriptor).empty()) return "of bytes plain scores alone were timed in it";
  }
  const int most_of_bytes = descriptor.query_tokens > 1 ? 16 : 8;  // with 16 of one token only 4 warps have room
  const int most_rows = are_packed ? 8 : are_bytes ? most_of_bytes : 32;
  const int rows = descriptor.heads_per_kv * descriptor.query_tokens;
  if (rows > most_rows)
    return fmt::format("family sm80 is faster with {} columns (heads_per_kv times query_tokens; sm90 up to {})", rows,
                       most_rows);
  return "";
}

using Specialised = PlannedSpecialisation<Plan, cubit_gqa_decode_arguments, workspace_bytes, encode>;

class Sm90 final : public Family {
 public:
  std::string_view name() const override { return "sm90"; }
  std::string_view accepted() const override { return "sm_90 and later"; }
  std::optional<BrokenRule> why_not_descriptor(const GqaDecode& descriptor) const override {
    const auto broken = [](std::string rule) {
      return BrokenRule{std::move(rule), "family=sm80, or leave family out"};
    };
    if (!are_alike(descriptor)) return broken(fmt::format("family=sm90: {}", kOneFormatOnly));
    if (!is_usual_head_dim(descriptor.head_dim)) return broken(fmt::format("family=sm90: {}", kUsualHeadDimsOnly));
    const std::string why = why_not_bulk_copies(descriptor);
    return why.empty() ? std::nullopt : std::optional(broken("family=sm90 copies rows in bulk: " + why));
  }
  std::optional<std::string> why_not(const GqaDecode& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (!architecture.bulk_copy) return "it needs cp.async.bulk.tensor, which sm_90 brought";
    if (!are_alike(descriptor)) return kOneFormatOnly;
    if (!is_usual_head_dim(descriptor.head_dim)) return kUsualHeadDimsOnly;
    std::string why = why_not_bulk_copies(descriptor);
    return why.empty() ? std::nullopt : std::optional(std::move(why));
  }
  FamilyPreference preference(const GqaDecode& descriptor, const codegen::Architecture& architecture) const override {
    std::string why = why_not_faster(descriptor, architecture);
    return {why.empty(), std::move(why)};
  }
  std::shared_ptr<const Specialisation> plan(const GqaDecode& descriptor, const codegen::Architecture& architecture,
                                             PlanReport report) const override {
    Plan plan = make_plan(descriptor, architecture, std::move(report));
    codegen::KernelSource source = make_source(plan, architecture);
    return std::make_shared<Specialised>(std::move(plan), std::move(source));
  }
  /// Without boxes the family copies rows as vectors, which sm80 does faster. bench/notes/gqa_decode.md has
  /// measurements of unaligned rows of 3 KV heads, and of pages of 1 and 4 tokens. Of 16-bit rows this family is as
  /// fast with vectors; bytes, and aligned rows without pages, were not measured.
  std::string_view faster_family(const GqaDecode& descriptor, const codegen::Architecture& architecture,
                                 const cubit_gqa_decode_arguments& launch,
                                 const runtime::DeviceFacts& device) const override {
    const bool was_measured = has_unaligned_rows(descriptor) || descriptor.cache == KvAddressing::paged;
    if (descriptor.kv != KvFormat::int4_rows || !was_measured) return {};
    return choose_split(make_plan(descriptor, architecture), launch, device).boxes.count > 0 ? "" : "sm80";
  }
};

}  // namespace

bool has_unaligned_rows(const GqaDecode& descriptor) { return descriptor.row_bytes() % 16 != 0; }

const Family& family() {
  static const Sm90 instance;
  return instance;
}

}  // namespace cubit::ops::gqa_decode::sm90
