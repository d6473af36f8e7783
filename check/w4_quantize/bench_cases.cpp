// The cases that `cubit bench w4_quantize` measures.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "check/w4_quantize/problem.hpp"

namespace cubit::check::w4_quantize {

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  for (const char* descriptor : {"w4_quantize", "w4_quantize:format=awq", "w4_quantize:format=symmetric,input=bf16",
                                 "w4_quantize:group_size=32", "w4_quantize:format=awq,group_size=all"}) {
    for (const double size : {4096, 16384}) {
      const bool has_groups = std::string_view(descriptor).find("all") == std::string_view::npos;
      cases.push_back({"square layers",
                       fmt::format("n = k = {}", size),
                       descriptor,
                       {{"n", size}, {"k", size}},
                       0,
                       has_groups ? 0.8 : 0});
    }
  }
  return cases;
}

}  // namespace cubit::check::w4_quantize
