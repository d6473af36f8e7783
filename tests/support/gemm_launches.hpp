// Arguments for w4a16_gemm launches with made-up tensors, for tests of everything that depends on sizes and device
// alone.
#pragma once

#include <cubit/w4a16_gemm.h>

#include <string_view>

#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "tests/support/launches.hpp"

namespace cubit::tests {

inline ops::w4a16_gemm::Plan plan_of(std::string_view text, const char* architecture = "sm_90a") {
  return ops::w4a16_gemm::make_plan(ops::w4a16_gemm::parse(text), codegen::find_architecture(architecture));
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
