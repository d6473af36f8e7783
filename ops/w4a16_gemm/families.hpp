// The kernel families of w4a16_gemm, and their list.
#pragma once

#include <cubit/w4a16_gemm.hpp>

#include "ops/gemm/families.hpp"
#include "ops/gemm/sm75/sm75.hpp"
#include "ops/gemm/sm80/sm80.hpp"
#include "ops/gemm/sm90/sm90.hpp"
#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"
#include "ops/w4a16_gemm/description.hpp"

namespace cubit::ops::w4a16_gemm {

using gemm::BlockPlan;
using GemmFamily = gemm::GemmFamily<W4a16Gemm>;

/// A family with one kind of plan. MakePlan(descriptor, architecture) makes it, and Operands(descriptor) returns the
/// decisions on the operands for the report.
template <auto MakePlan, auto Operands>
class OnePlanFamily : public GemmFamily {
 public:
  BlockPlan block_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) const final {
    return MakePlan(descriptor, architecture).block;
  }
  std::shared_ptr<const Specialisation> plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture,
                                             PlanReport report) const final {
    return gemm::make_specialisation(kTranslation, descriptor, MakePlan(descriptor, architecture), Operands(descriptor),
                                     std::move(report), architecture);
  }
};

/// Why a family whose kernels have one layer does not serve a descriptor that has several.
BrokenRule rule_of_layers();

/// Why a family without dense weights does not serve a descriptor that has them.
BrokenRule rule_of_dense_weights();

/// All families, in the order in which the operator tries them.
const FamilyList<GemmFamily>& families();

/// The chosen family's block plan: see choose_family(). Throws Failure(unsupported) if no family serves the descriptor.
BlockPlan plan_block(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);

namespace sm75 {
gemm::sm75::Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);
const GemmFamily& family();
}  // namespace sm75
namespace sm80 {
gemm::sm80::Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);
const GemmFamily& family();
}  // namespace sm80
namespace sm90 {
gemm::sm90::WidePlan make_wide_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);
gemm::sm90::NarrowPlan make_narrow_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);
const GemmFamily& family();
}  // namespace sm90
namespace sm90_persistent {
gemm::sm90_persistent::Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);
const GemmFamily& family();
}  // namespace sm90_persistent

}  // namespace cubit::ops::w4a16_gemm
