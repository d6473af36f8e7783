// The cases that `cubit bench kv_gather` measures.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "check/kv_gather/problem.hpp"

namespace cubit::check::kv_gather {

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  const Numbers sizes = {{"batch", 1}, {"tokens", 8192}, {"kv_heads", 8}, {"context", 8192}};
  for (const char* format :
       {"", "kv=fp16,output=fp16", "kv=int4_rows", "kv=int4_rows,groups=4", "kv=int8_split", "kv=fp8_e4m3",
        "kv=int4_rows,groups=4,cache=paged", "kv=fp8_e4m3,value=int4_rows,value_groups=4", "value=fp8_e4m3",
        "head_dim=192,value_dim=128"}) {
    const std::string descriptor = *format == 0 ? "kv_gather" : fmt::format("kv_gather:{}", format);
    cases.push_back({"8192 tokens, 8 KV heads", "all", descriptor, sizes, 0, 0.85});
  }
  return cases;
}

}  // namespace cubit::check::kv_gather
