// The cases that `cubit bench w8a8_gemm` measures. No case has a target before somebody has timed these kernels.
#include <fmt/format.h>

#include "check/w8a8_gemm/problem.hpp"

namespace cubit::check::w8a8_gemm {

std::vector<BenchCase> bench_cases() {
  constexpr int kShapes[][2] = {{1920, 1920}, {4096, 4096}, {8192, 8192}};  // n, k
  std::vector<BenchCase> cases;
  const auto add = [&](const char* group, const char* descriptor, const int(&shape)[2], int m) {
    const auto [n, k] = shape;
    cases.push_back({group, fmt::format("N={} K={} M={}", n, k, m), descriptor, {{"m", m}, {"n", n}, {"k", k}}});
  };
  for (const auto& shape : kShapes)
    for (const int m : {1, 16, 64, 128, 256, 2048}) add("int8 to fp16 by token and channel", "w8a8_gemm", shape, m);
  add("int8 to fp16 by token and channel", "w8a8_gemm", kShapes[1], 4096);
  add("int8 to fp16 by token and channel", "w8a8_gemm", kShapes[2], 8192);
  for (const char* const descriptor : {"w8a8_gemm:output=int32", "w8a8_gemm:output=int8", "w8a8_gemm:element=fp8_e4m3",
                                       "w8a8_gemm:element=fp8_e4m3,accumulate=promoted"})
    for (const int m : {1, 16, 64, 256, 2048}) add("other types", descriptor, kShapes[2], m);
  return cases;
}

std::vector<Decomposition> decompositions() {
  return {{"data_parallel", {{"decomposition", CUBIT_W8A8_DATA_PARALLEL}}},
          {"split_k", {{"decomposition", CUBIT_W8A8_SPLIT_K}}},
          {"stream_k", {{"decomposition", CUBIT_W8A8_STREAM_K}}},
          {"split_k_atomic", {{"decomposition", CUBIT_W8A8_SPLIT_K_ATOMIC}}, "atomic_splits=true"}};
}

}  // namespace cubit::check::w8a8_gemm
