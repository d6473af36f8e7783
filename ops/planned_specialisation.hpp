// A Specialisation made of a plan, for operators whose workspace and launch are functions of one plan struct.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/operator.hpp"

namespace cubit::ops {

/// `Plan` has a member `report`. `Arguments` is the public argument struct. `WorkspaceBytes` and `Encode` are the
/// operator's functions of a plan and public arguments.
template <class Plan, class Arguments, auto WorkspaceBytes, auto Encode>
class PlannedSpecialisation final : public Specialisation {
 public:
  static_assert(sizeof(Arguments) % sizeof(std::uint64_t) == 0 && sizeof(Arguments) <= kMostRepeatableBytes);

  PlannedSpecialisation(Plan plan, codegen::KernelSource source) : plan_(std::move(plan)), source_(std::move(source)) {}

  const codegen::KernelSource& source() const override { return source_; }
  const PlanReport& report() const override { return plan_.report; }
  std::size_t workspace_bytes(const void* arguments, const runtime::DeviceFacts& device) const override {
    return WorkspaceBytes(plan_, arguments, device);
  }
  Launch encode(const void* arguments, void* workspace, std::size_t bytes,
                const runtime::DeviceFacts& device) const override {
    return Encode(plan_, arguments, workspace, bytes, device);
  }
  std::size_t argument_bytes() const override { return sizeof(Arguments); }
  std::size_t repeatable_bytes() const override { return sizeof(Arguments); }

 private:
  Plan plan_;
  codegen::KernelSource source_;
};

}  // namespace cubit::ops
