// Kernel family sm75: what it serves.
#include <fmt/format.h>

#include "ops/gqa_decode/sm75/sm75.hpp"

namespace cubit::ops::gqa_decode::sm75 {
namespace {

/// Why the family does not serve the descriptor, whose types are not all fp16; empty if they are.
std::string why_not_all_fp16(const GqaDecode& descriptor) {
  if (descriptor.query != Element::fp16 || descriptor.output != Element::fp16)
    return fmt::format("the {} is bf16", descriptor.query != Element::fp16 ? "query" : "output");
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const bool keys = formats.key.kv == KvFormat::bf16;
  const bool values = formats.value.kv == KvFormat::bf16;
  if (!keys && !values) return "";
  return fmt::format("the {} bf16", keys && values ? "cache is" : keys ? "keys are" : "values are");
}

using Specialised =
    PlannedSpecialisation<Plan, cubit_gqa_decode_arguments, warp_ring::workspace_bytes, warp_ring::encode>;

class Sm75 final : public Family {
 public:
  std::string_view name() const override { return "sm75"; }
  std::string_view accepted() const override { return "sm_75 and later"; }
  std::optional<BrokenRule> why_not_descriptor(const GqaDecode& descriptor) const override {
    const std::string why = why_not_all_fp16(descriptor);
    if (why.empty()) return std::nullopt;
    return BrokenRule{"family=sm75 multiplies fp16 alone: " + why,
                      "a cache without bf16 with query=fp16 and output=fp16, or leave family out"};
  }
  std::optional<std::string> why_not(const GqaDecode& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (!architecture.ldmatrix || !architecture.movmatrix) return "it needs ldmatrix and movmatrix";
    const std::string why = why_not_all_fp16(descriptor);
    return why.empty() ? std::nullopt : std::optional(why);
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
  static const Sm75 instance;
  return instance;
}

}  // namespace cubit::ops::gqa_decode::sm75
