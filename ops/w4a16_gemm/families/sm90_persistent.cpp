// Family sm90_persistent: which descriptors it serves.
#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"

#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/operand_report.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "ops/w4a16_gemm/weights.hpp"

namespace cubit::ops::w4a16_gemm::sm90_persistent {
namespace {

class Sm90PersistentFamily final : public OnePlanFamily<make_plan, persistent_operand_decisions> {
 public:
  std::string_view name() const override { return "sm90_persistent"; }
  std::string_view accepted() const override { return "sm_90a"; }

  std::optional<BrokenRule> why_not_descriptor(const W4a16Gemm& descriptor) const override {
    constexpr const char* kFewerRows =
        "ask for tile_m=8, 16, 32 or 64, which compute any number of rows, and leave family out";
    if (descriptor.is_dense() && descriptor.tile_m < 16)
      return BrokenRule{"its tiles of dense weights have 16 to 256 rows", "leave tile_m out"};
    if (!descriptor.is_dense() && descriptor.tile_m < 64)
      return BrokenRule{"its tiles have 64 to 256 rows",
                        "ask for tile_m=64, 80, 128, 144, 192 or 256, or leave family out"};
    if (descriptor.layers > 1) return rule_of_layers();
    if (is_narrow(descriptor)) return BrokenRule{"its clusters have 256 columns", "leave tile_n or family out"};
    if (descriptor.group_size == 16 && !descriptor.activation_order)
      return BrokenRule{"groups of 16 would change the unit of the sums at every product", kFewerRows};
    if (descriptor.atomic_splits)
      return BrokenRule{"the two blocks of a cluster add up their sums themselves, without atomics",
                        "leave atomic_splits out"};
    if (descriptor.batch_invariant)
      return BrokenRule{"batch_invariant=true needs the same order of k in every tile",
                        descriptor.is_dense() ? "leave batch_invariant out" : kFewerRows};
    if (descriptor.bits != 4) return BrokenRule{"there is no kernel of weights of 8 bits yet", kFewerRows};
    if (descriptor.alignment != 16)
      return BrokenRule{"tensor maps need rows that are multiples of 16 bytes, not alignment=4", kFewerRows};
    return std::nullopt;
  }
  std::optional<std::string> why_not(const W4a16Gemm& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (!architecture.wgmma) return "it needs wgmma, which sm_90a alone has";
    if (auto broken = why_not_descriptor(descriptor)) return std::move(broken->rule);
    return std::nullopt;
  }
  FamilyPreference preference(const W4a16Gemm& descriptor, const codegen::Architecture&) const override {
    if (has_many_rows(descriptor) || descriptor.activation_order) return {.is_preferred = true};
    return {.why_not_preferred = "tiles of 64 rows are faster in family sm90 with most sizes"};
  }
};

}  // namespace

gemm::sm90_persistent::Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  return gemm::sm90_persistent::make_plan(describe(descriptor), persistent_weights(descriptor), architecture);
}

const GemmFamily& family() {
  static const Sm90PersistentFamily kFamily;
  return kFamily;
}

}  // namespace cubit::ops::w4a16_gemm::sm90_persistent
