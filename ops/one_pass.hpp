// Specialisations of kernels that read their tensors once: small blocks, no workspace, no plan beyond the descriptor.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "codegen/plan_header.hpp"
#include "ops/operator.hpp"

namespace cubit::ops::one_pass {

/// Threads of a block. Small blocks let small launches use many SMs, and 16 blocks of 128 threads still fill an SM's
/// 2048 threads.
inline constexpr int kThreads = 128;

/// The source of templates/kernels/`folder`/`name`.cuh, whose entry point is `name`, with a plan's header.
codegen::KernelSource make_source(const std::string& descriptor, const char* folder, const char* name,
                                  const codegen::PlanHeader& header, const codegen::Architecture& architecture);

/// A Specialisation that consists of its source, its report and a function that encodes launches.
class OnePassSpecialisation final : public Specialisation {
 public:
  using Encode = std::function<Launch(const void* arguments, const runtime::DeviceFacts& device)>;
  /// `argument_bytes`: sizeof the operator's public argument struct.
  OnePassSpecialisation(codegen::KernelSource source, PlanReport report, std::size_t argument_bytes, Encode encode)
      : source_(std::move(source)),
        report_(std::move(report)),
        argument_bytes_(argument_bytes),
        encode_(std::move(encode)) {}

  const codegen::KernelSource& source() const override { return source_; }
  const PlanReport& report() const override { return report_; }
  std::size_t argument_bytes() const override { return argument_bytes_; }
  std::size_t workspace_bytes(const void*, const runtime::DeviceFacts&) const override { return 0; }
  Launch encode(const void* arguments, void*, std::size_t, const runtime::DeviceFacts& device) const override {
    return encode_(arguments, device);
  }

 private:
  codegen::KernelSource source_;
  PlanReport report_;
  std::size_t argument_bytes_;
  Encode encode_;
};

}  // namespace cubit::ops::one_pass
