// The cases that `cubit bench kv_append` measures.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "check/kv_append/problem.hpp"

namespace cubit::check::kv_append {

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  const Numbers prefill = {{"batch", 1}, {"tokens", 8192}, {"kv_heads", 8}, {"context", 8192}};
  const Numbers decode = {{"batch", 64}, {"tokens", 1}, {"kv_heads", 8}, {"context", 16}};
  for (const char* format :
       {"", "kv=fp16,input=fp16", "kv=int4_rows", "kv=int4_rows,groups=4", "rotary=half_split",
        "kv=int4_rows,groups=4,rotary=half_split", "kv=int8_split", "kv=fp8_e4m3", "kv=fp8_e5m2",
        "kv=fp8_e4m3,scales=tensor", "kv=int8_split,rotary=half_split", "cache=paged",
        "kv=int4_rows,groups=4,rotary=half_split,cache=paged", "kv=fp8_e4m3,value=int4_rows,value_groups=4",
        "value=fp8_e4m3", "head_dim=192,value_dim=128"}) {
    const std::string descriptor = *format == 0 ? "kv_append" : fmt::format("kv_append:{}", format);
    cases.push_back({"8192 tokens, 8 KV heads", "prefill", descriptor, prefill, 0, 0.85});
  }
  for (std::size_t i = 0, count = cases.size(); i < count; ++i) {
    const std::string descriptor = cases[i].descriptor;
    cases.push_back({"64 sequences, one token each, 8 KV heads", "decode", descriptor, decode, 4, 0});
  }
  return cases;
}

}  // namespace cubit::check::kv_append
