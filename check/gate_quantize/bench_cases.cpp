// The cases that `cubit bench gate_quantize` measures.
#include "check/gate_quantize/problem.hpp"
#include "check/quantisation/bench_rows.hpp"

namespace cubit::check::gate_quantize {

std::vector<BenchCase> bench_cases() {
  return quantisation::row_bench_cases({"gate_quantize", "gate_quantize:output=unquantised",
                                        "gate_quantize:output=fp8_e4m3,input=bf16", "gate_quantize:function=gelu"});
}

}  // namespace cubit::check::gate_quantize
