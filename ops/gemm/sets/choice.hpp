// The choice among the members of an operator's set, by the operator's public arguments.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "ops/argument_checks.hpp"
#include "ops/gemm/sets/members.hpp"
#include "ops/gemm/sets/tile_choice.hpp"
#include "ops/gemm/specialisation.hpp"

namespace cubit::ops::gemm {

template <class Descriptor, class Arguments>
class GemmChoice final : public MemberChoice {
 public:
  /// A choice among kernels of the set, which the architecture serves: members(), or others for studies of how good
  /// members() are. `translation` outlives the object.
  GemmChoice(const SetPolicy<Descriptor>& policy, const Translation<Descriptor, Arguments>& translation,
             const Descriptor& set, std::vector<Descriptor> kernels, const codegen::Architecture& architecture)
      : translation_(translation),
        set_(set),
        described_(translation.describe(set)),
        choice_(block_plans(policy, kernels, architecture), is_timed(policy, set, architecture)),
        kernels_(std::move(kernels)) {}

  std::size_t choose(const void* public_arguments, const runtime::DeviceFacts& device) const override {
    return choice_.choose(checked_problem(public_arguments), device);
  }
  std::size_t workspace_bytes(const void* public_arguments, const runtime::DeviceFacts& device) const override {
    return choice_.workspace_bytes(checked_problem(public_arguments), device);
  }
  ChoiceKey key(const void* public_arguments) const override { return TileChoice::key(problem_of(public_arguments)); }
  std::vector<ServedSizes> served() const override { return choice_.served(); }

  /// Returns the index of the member for launches of these sizes. The function reads no pointer.
  std::size_t choose_by_sizes(const Problem& sizes, const runtime::DeviceFacts& device) const {
    return choice_.choose(sizes, device);
  }
  const Descriptor& member(std::size_t index) const { return kernels_[index]; }
  std::size_t member_count() const { return kernels_.size(); }

 private:
  static std::vector<BlockPlan> block_plans(const SetPolicy<Descriptor>& policy, const std::vector<Descriptor>& kernels,
                                            const codegen::Architecture& architecture) {
    std::vector<BlockPlan> plans;
    for (const Descriptor& kernel : kernels)
      plans.push_back(choose_family(policy.families(), kernel, architecture).family.block_plan(kernel, architecture));
    return plans;
  }
  Problem problem_of(const void* public_arguments) const {
    return translation_.problem(set_, checked_arguments<Arguments>(public_arguments, translation_.struct_name));
  }
  Problem checked_problem(const void* public_arguments) const {
    Problem problem = problem_of(public_arguments);
    check_sizes(described_, problem.m, problem.n, problem.k);
    return problem;
  }

  const Translation<Descriptor, Arguments>& translation_;
  Descriptor set_;
  GemmDescriptor described_;
  TileChoice choice_;
  std::vector<Descriptor> kernels_;
};

}  // namespace cubit::ops::gemm
