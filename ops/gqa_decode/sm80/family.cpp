// Kernel family sm80: what it serves.
#include "ops/gqa_decode/sm80/sm80.hpp"

namespace cubit::ops::gqa_decode::sm80 {
namespace {

using Specialised =
    PlannedSpecialisation<Plan, cubit_gqa_decode_arguments, warp_ring::workspace_bytes, warp_ring::encode>;

class Sm80 final : public Family {
 public:
  std::string_view name() const override { return "sm80"; }
  std::string_view accepted() const override { return "sm_80 and later"; }
  std::optional<std::string> why_not(const GqaDecode&, const codegen::Architecture& architecture) const override {
    if (!architecture.cp_async) return "it needs cp.async, which sm_80 brought";
    if (!architecture.ldmatrix || !architecture.movmatrix) return "it needs ldmatrix and movmatrix";
    if (!architecture.has_mma({16, 8, 16, codegen::MmaType::fp16})) return "it needs mma.sync m16n8k16";
    return std::nullopt;
  }
  std::shared_ptr<const Specialisation> plan(const GqaDecode& descriptor, const codegen::Architecture& architecture,
                                             PlanReport report) const override {
    Plan plan = make_plan(descriptor, architecture, std::move(report));
    codegen::KernelSource source = make_source(plan, architecture);
    return std::make_shared<Specialised>(std::move(plan), std::move(source));
  }
};

}  // namespace

const Family& family() {
  static const Sm80 instance;
  return instance;
}

}  // namespace cubit::ops::gqa_decode::sm80
