// A kernel of ops/gemm for one descriptor of an operator: a Specialisation that translates the operator's public
// arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/argument_checks.hpp"
#include "ops/argument_table.hpp"
#include "ops/gemm/launch.hpp"
#include "ops/gemm/workspace.hpp"

namespace cubit::ops::gemm {

/// An operator's functions on its descriptor and its public argument struct. A constant of the operator.
template <class Descriptor, class Arguments>
struct Translation {
  const char* struct_name;  ///< "cubit_w4a16_gemm_arguments"
  /// The part of a descriptor that all GEMMs have.
  GemmDescriptor (*describe)(const Descriptor& descriptor);
  PointerChecks (*pointer_checks)(const Descriptor& descriptor);
  /// Throws Failure(invalid_argument) for numbers of columns of layers that the descriptor rules out.
  Problem (*problem)(const Descriptor& descriptor, const Arguments& arguments);
  /// Throws Failure(invalid_argument) for tensors that are not in the problem and that no kernel takes.
  void (*check_tensors)(const Descriptor& descriptor, const Arguments& arguments);
  /// With tensor maps if the block copies words in boxes.
  WeightTensors (*weights)(const Descriptor& descriptor, const BlockPlan& block, const Arguments& arguments);
};

/// `Kernel` is the plan of a family: it has a member `block`, and a function encode_launch().
template <class Descriptor, class Arguments, class Kernel>
class GemmSpecialisation final : public Specialisation {
 public:
  static_assert(sizeof(Arguments) % sizeof(std::uint64_t) == 0 && sizeof(Arguments) <= kMostRepeatableBytes);

  /// `translation` outlives the object.
  GemmSpecialisation(const Translation<Descriptor, Arguments>& translation, Descriptor descriptor, Kernel kernel,
                     PlanReport report, codegen::KernelSource source)
      : translation_(translation),
        pointers_(translation.pointer_checks(descriptor)),
        descriptor_(std::move(descriptor)),
        kernel_(std::move(kernel)),
        report_(std::move(report)),
        source_(std::move(source)) {}

  const codegen::KernelSource& source() const override { return source_; }
  const PlanReport& report() const override { return report_; }
  std::size_t workspace_bytes(const void* public_arguments, const runtime::DeviceFacts& device) const override {
    const Problem problem = translation_.problem(descriptor_, checked(public_arguments));
    return gemm::workspace_bytes(kernel_.block, schedule_launch(kernel_.block, problem, device), device);
  }
  Launch encode(const void* public_arguments, void* workspace, std::size_t bytes,
                const runtime::DeviceFacts& device) const override {
    const Arguments& arguments = checked(public_arguments);
    const ScheduledLaunch launch = schedule_launch(kernel_.block, translation_.problem(descriptor_, arguments), device);
    if (launch.is_empty()) return empty_launch();
    pointers_.check(&arguments);
    translation_.check_tensors(descriptor_, arguments);
    check_tensors(kernel_.block.descriptor, launch.problem);
    require_row_stride(kernel_.block, launch.problem);
    require_workspace(workspace, bytes, exact_workspace_bytes(kernel_.block, launch));
    return encode_launch(kernel_, launch, translation_.weights(descriptor_, kernel_.block, arguments), workspace,
                         device);
  }
  std::size_t argument_bytes() const override { return sizeof(Arguments); }
  std::size_t repeatable_bytes() const override { return sizeof(Arguments); }

 private:
  const Arguments& checked(const void* public_arguments) const {
    return checked_arguments<Arguments>(public_arguments, translation_.struct_name);
  }

  const Translation<Descriptor, Arguments>& translation_;
  PointerChecks pointers_;
  Descriptor descriptor_;
  Kernel kernel_;
  PlanReport report_;
  codegen::KernelSource source_;
};

/// `report` names the family already. `operands`: how words become operands.
template <class Descriptor, class Arguments, class Kernel>
std::shared_ptr<const Specialisation> make_specialisation(const Translation<Descriptor, Arguments>& translation,
                                                          const Descriptor& descriptor, Kernel kernel,
                                                          const std::vector<Decision>& operands, PlanReport report,
                                                          const codegen::Architecture& architecture) {
  write_report(report, kernel, operands, architecture);
  codegen::KernelSource source = make_source(kernel, architecture);
  return std::make_shared<GemmSpecialisation<Descriptor, Arguments, Kernel>>(translation, descriptor, std::move(kernel),
                                                                             std::move(report), std::move(source));
}

}  // namespace cubit::ops::gemm
