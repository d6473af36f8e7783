// Family sm75: which descriptors it serves.
#include "ops/gemm/sm75/sm75.hpp"

#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/operand_report.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "ops/w4a16_gemm/weights.hpp"

namespace cubit::ops::w4a16_gemm::sm75 {
namespace {

class Sm75Family final : public OnePlanFamily<make_plan, operand_decisions> {
 public:
  std::string_view name() const override { return "sm75"; }
  std::string_view accepted() const override { return "sm_75 and later"; }
  bool is_modelled(const codegen::Architecture&) const override { return false; }

  std::optional<BrokenRule> why_not_descriptor(const W4a16Gemm& descriptor) const override {
    if (descriptor.is_dense()) return rule_of_dense_weights();
    if (auto broken = gemm::sm75::why_no_tile({descriptor.tile_m, descriptor.tile_n})) return broken;
    if (descriptor.element != Element::fp16)
      return BrokenRule{"it multiplies fp16 alone, as the tensor cores of sm_75 do",
                        "ask for element=fp16, or leave family out"};
    return std::nullopt;
  }
  std::optional<std::string> why_not(const W4a16Gemm& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (auto rule = gemm::sm75::why_not(architecture)) return rule;
    if (auto broken = why_not_descriptor(descriptor)) return std::move(broken->rule);
    return std::nullopt;
  }
};

}  // namespace

gemm::sm75::Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  return gemm::sm75::make_plan(describe(descriptor), mma_sync_weights(descriptor), architecture);
}

const GemmFamily& family() {
  static const Sm75Family kFamily;
  return kFamily;
}

}  // namespace cubit::ops::w4a16_gemm::sm75
