// The cases that `cubit bench merge` measures.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "check/merge/problem.hpp"

namespace cubit::check::merge {

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  for (const char* descriptor :
       {"merge", "merge:input=fp16,output=fp16", "merge:input=fp32", "merge:head_dim=64", "merge:head_dim=512"}) {
    for (const double parts : {2, 8}) {
      cases.push_back({"8192 queries, 32 heads",
                       fmt::format("{} parts", parts),
                       descriptor,
                       {{"parts", parts}, {"rows", 8192}, {"heads", 32}},
                       0,
                       0.85});
    }
  }
  return cases;
}

}  // namespace cubit::check::merge
