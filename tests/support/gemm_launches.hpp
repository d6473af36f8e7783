// Arguments for w4a16_gemm launches with made-up tensors, for tests of everything that depends on sizes and device
// alone.
#pragma once

#include <cubit/w4a16_gemm.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/members.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "tests/support/launches.hpp"

namespace cubit::tests {

/// A descriptor's kernel for an architecture: the part of its plan that all families have, and its specialisation.
struct PlannedGemm {
  ops::gemm::BlockPlan block;
  std::shared_ptr<const ops::Specialisation> made;

  const ops::PlanReport& report() const { return made->report(); }
  const ops::Tile& words() const { return report().tiles.at(0); }
  const ops::Tile& activations() const { return report().tiles.at(1); }

  std::size_t workspace_bytes(const cubit_w4a16_gemm_arguments& arguments, const runtime::DeviceFacts& device) const {
    return made->workspace_bytes(&arguments, device);
  }
  ops::Launch encode(const cubit_w4a16_gemm_arguments& arguments, void* workspace, std::size_t bytes,
                     const runtime::DeviceFacts& device) const {
    return made->encode(&arguments, workspace, bytes, device);
  }
  ops::gemm::Schedule schedule(const cubit_w4a16_gemm_arguments& arguments, const runtime::DeviceFacts& device) const {
    return ops::w4a16_gemm::choose_schedule(block, arguments, device);
  }
};

inline PlannedGemm plan_of(std::string_view text, const char* architecture = "sm_90a") {
  const auto& found = codegen::find_architecture(architecture);
  auto made = ops::find_operator(text).specialise(text, found);  // refuses a set
  const W4a16Gemm kernel = ops::w4a16_gemm::members(ops::w4a16_gemm::parse(text), found).front();
  return {ops::w4a16_gemm::plan_block(kernel, found), std::move(made)};
}

/// Returns nothing if the architecture lacks the family that the descriptor names, if no family of sm_75 multiplies the
/// descriptor's type, or if the architecture lacks the family that has blocks of 96 to 224 columns, tiles of more than
/// 64 rows, or dense weights.
inline std::optional<PlannedGemm> plan_if_any(const W4a16Gemm& descriptor, const char* architecture) {
  try {
    return plan_of(descriptor.text(), architecture);
  } catch (const Failure& failure) {
    const bool is_lacking =
        (descriptor.tile_n > 64 && descriptor.tile_n < 256) || descriptor.tile_m > 64 || descriptor.is_dense() ||
        (std::string_view(architecture) == "sm_75" && (descriptor.element == Element::bf16 || descriptor.tile_n < 256));
    if (failure.status() != Status::unsupported || (descriptor.family == "auto" && !is_lacking)) throw;
    return std::nullopt;
  }
}

/// For a format that stores zero points.
inline cubit_w4a16_gemm_arguments arguments_of(int m, int n, int k) {
  cubit_w4a16_gemm_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.activations = address(0x1000);
  arguments.qweight = address(0x2000);
  arguments.qzeros = address(0x3000);
  arguments.scales = address(0x4000);
  arguments.output = address(0x5000);
  arguments.activation_stride = k;
  arguments.output_stride = n;
  arguments.m = m;
  arguments.n = n;
  arguments.k = k;
  return arguments;
}

}  // namespace cubit::tests
