// Family sm80: which descriptors it serves.
#include "ops/gemm/sm80/sm80.hpp"

#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/operand_report.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "ops/w4a16_gemm/weights.hpp"

namespace cubit::ops::w4a16_gemm::sm80 {
namespace {

class Sm80Family final : public OnePlanFamily<make_plan, operand_decisions> {
 public:
  std::string_view name() const override { return "sm80"; }
  std::string_view accepted() const override { return "sm_80 and later"; }

  std::optional<BrokenRule> why_not_descriptor(const W4a16Gemm& descriptor) const override {
    if (descriptor.is_dense()) return rule_of_dense_weights();
    return gemm::sm80::why_no_tile({descriptor.tile_m, descriptor.tile_n});
  }
  std::optional<std::string> why_not(const W4a16Gemm& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (auto broken = why_not_descriptor(descriptor)) return std::move(broken->rule);
    return gemm::sm80::why_not(16, codegen::MmaType::fp16, architecture);
  }
};

}  // namespace

gemm::sm80::Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  return gemm::sm80::make_plan(describe(descriptor), mma_sync_weights(descriptor), architecture);
}

const GemmFamily& family() {
  static const Sm80Family kFamily;
  return kFamily;
}

}  // namespace cubit::ops::w4a16_gemm::sm80
