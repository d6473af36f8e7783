// Family sm90: which descriptors it serves.
#include "ops/gemm/sm90/sm90.hpp"

#include <fmt/format.h>

#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/operand_report.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "ops/w4a16_gemm/weights.hpp"

namespace cubit::ops::w4a16_gemm::sm90 {
namespace {

/// The rule of both kernels that the descriptor breaks, or nothing.
std::optional<std::string> why_no_boxes(const W4a16Gemm& descriptor) {
  if (descriptor.activation_order) return "with activation_order=true neighbours along k share no group";
  if (descriptor.group_size == 16) return "groups of 16 are half of a step of 32 values along k";
  if (descriptor.batch_invariant) return "batch_invariant=true needs the same order of k in every tile";
  if (descriptor.bits != 4) return "there is no kernel of weights of 8 bits yet";
  if (descriptor.alignment != 16) return "tensor maps need rows that are multiples of 16 bytes, not alignment=4";
  return std::nullopt;
}

/// The narrow kernel keeps 224 columns of 16 rows in registers in these formats only: in others ptxas lacks a few
/// registers.
bool fits_224_columns_of_16_rows(const W4a16Gemm& descriptor) {
  return descriptor.element == Element::fp16 && stores_zeros(descriptor) && !has_words_by_n(descriptor) &&
         (descriptor.group_size == 128 || descriptor.group_size == 0);
}

/// The rule of the narrow kernel that the descriptor breaks, or nothing.
std::optional<std::string> why_no_narrow_blocks(const W4a16Gemm& descriptor) {
  if (has_words_by_n(descriptor) && descriptor.tile_n == 32)
    return "a row of 32 columns of awq is 16 bytes, half of what the L2 cache delivers at once";
  const int strips = descriptor.tile_n / 32;
  if (descriptor.is_gated() && strips > 1 && strips % 2 != 0)
    return fmt::format("half of {} columns is no number of strips of 32", descriptor.tile_n);
  if (descriptor.tile_n == 224 && descriptor.tile_m == 16 && !fits_224_columns_of_16_rows(descriptor))
    return "16 rows of 224 columns fit a warp's registers in fp16 of gptq and gptq_v2 with group_size=128 or all only";
  // A group's scales of 32 columns are 64 bytes, and a box begins at a multiple of 128.
  if (descriptor.tile_n == 64 && descriptor.is_gated())
    return "32 gate columns and 32 up-projection columns are too few for TMA boxes";
  return std::nullopt;
}

const char* remedy_of(const W4a16Gemm& descriptor) {
  if (!is_narrow(descriptor)) return "ask for family=sm80, or leave family out";
  return descriptor.tile_n > 64 ? "ask for a smaller tile_n or tile_m, or tile_n=256, and leave family out"
                                : "leave family out";
}

class Sm90Family final : public GemmFamily {
 public:
  std::string_view name() const override { return "sm90"; }
  std::string_view accepted() const override { return "sm_90a"; }

  std::optional<BrokenRule> why_not_descriptor(const W4a16Gemm& descriptor) const override {
    if (descriptor.is_dense()) return rule_of_dense_weights();
    if (descriptor.layers > 1) return rule_of_layers();
    if (auto broken = gemm::why_too_many_rows(descriptor.tile_m)) return broken;
    std::optional<std::string> rule = why_no_boxes(descriptor);
    if (!rule && is_narrow(descriptor)) rule = why_no_narrow_blocks(descriptor);
    if (!rule) return std::nullopt;
    return BrokenRule{std::move(*rule), remedy_of(descriptor)};
  }
  std::optional<std::string> why_not(const W4a16Gemm& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (!architecture.wgmma)
      return is_narrow(descriptor) ? "its blocks of few columns are written for sm_90a"
                                   : "it needs wgmma, which sm_90a alone has";
    if (auto broken = why_not_descriptor(descriptor)) return std::move(broken->rule);
    return std::nullopt;
  }
  /// What an H200 has shown (bench/notes/w4a16_gemm.md): with up to 16 rows wgmma takes nearly as long as with 32
  /// rows, and mma.sync does not. In blocks of few columns sm80 and sm90 both have mma.sync, and sm90 copies faster.
  FamilyPreference preference(const W4a16Gemm& descriptor, const codegen::Architecture&) const override {
    if (descriptor.tile_m >= 32 || is_narrow(descriptor)) return {.is_preferred = true};
    return {.why_not_preferred = "family sm80 is faster there with most sizes"};
  }
  BlockPlan block_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) const override {
    return is_narrow(descriptor) ? make_narrow_plan(descriptor, architecture).block
                                 : make_wide_plan(descriptor, architecture).block;
  }
  std::shared_ptr<const Specialisation> plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture,
                                             PlanReport report) const override {
    if (is_narrow(descriptor))
      return gemm::make_specialisation(kTranslation, descriptor, make_narrow_plan(descriptor, architecture),
                                       operand_decisions(descriptor), std::move(report), architecture);
    return gemm::make_specialisation(kTranslation, descriptor, make_wide_plan(descriptor, architecture),
                                     wide_operand_decisions(descriptor), std::move(report), architecture);
  }
};

}  // namespace

gemm::sm90::WidePlan make_wide_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  return gemm::sm90::make_wide_plan(describe(descriptor), sm90_weights(descriptor), architecture);
}

gemm::sm90::NarrowPlan make_narrow_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  return gemm::sm90::make_narrow_plan(describe(descriptor), sm90_weights(descriptor), architecture);
}

const GemmFamily& family() {
  static const Sm90Family kFamily;
  return kFamily;
}

}  // namespace cubit::ops::w4a16_gemm::sm90
