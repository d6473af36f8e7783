// The cases that `cubit bench quantize` measures.
#include "check/quantisation/bench_rows.hpp"
#include "check/quantize/problem.hpp"

namespace cubit::check::quantize {

std::vector<BenchCase> bench_cases() {
  return quantisation::row_bench_cases({"quantize", "quantize:output=fp8_e4m3,input=bf16", "quantize:scheme=asymmetric",
                                        "quantize:scale=tensor", "quantize:layout=col32"});
}

}  // namespace cubit::check::quantize
