// What the operators that multiply matrices have in common before the registry: sets of kernels, and their members.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ops/gemm/sets/choice.hpp"
#include "ops/gemm/sets/members.hpp"
#include "ops/gemm/specialisation.hpp"
#include "ops/operator.hpp"

namespace cubit::ops::gemm {

/// An operator adds its name, fields and arguments.
template <class Descriptor, class Arguments>
class GemmOperator : public Operator {
 public:
  /// `policy` and `translation` outlive the object. `parse` throws Failure(invalid_argument).
  GemmOperator(const SetPolicy<Descriptor>& policy, const Translation<Descriptor, Arguments>& translation,
               Descriptor (*parse)(std::string_view text))
      : policy_(policy), translation_(translation), parse_(parse) {}

  std::string canonical(std::string_view text) const override { return parse_(text).text(); }
  std::vector<std::string> members(std::string_view text, const codegen::Architecture& architecture) const override {
    std::vector<std::string> texts;
    for (const Descriptor& member : gemm::members(policy_, parse_(text), architecture)) texts.push_back(member.text());
    return texts;
  }
  std::shared_ptr<const MemberChoice> choice(std::string_view text,
                                             const codegen::Architecture& architecture) const override {
    const Descriptor set = parse_(text);
    std::vector<Descriptor> kernels = gemm::members(policy_, set, architecture);
    if (kernels.size() == 1) return nullptr;
    return std::make_shared<GemmChoice<Descriptor, Arguments>>(policy_, translation_, set, std::move(kernels),
                                                               architecture);
  }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const std::vector<Descriptor> kernels = gemm::members(policy_, parse_(text), architecture);
    if (kernels.size() > 1) {
      throw Failure(Status::invalid_argument, fmt::format("{} for {}", text, architecture.name),
                    fmt::format("it names a set of {} kernels, and a plan belongs to one of them", kernels.size()),
                    fmt::format("give both tile_m and tile_n, for instance {}", kernels.front().text()));
    }
    auto chosen = choose_family(policy_.families(), kernels.front(), architecture);
    return chosen.family.plan(kernels.front(), architecture, std::move(chosen.report));
  }

 private:
  const SetPolicy<Descriptor>& policy_;
  const Translation<Descriptor, Arguments>& translation_;
  Descriptor (*parse_)(std::string_view text);
};

}  // namespace cubit::ops::gemm
