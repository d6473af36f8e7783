// The cases that `cubit bench norm_quantize` measures.
#include "check/norm_quantize/problem.hpp"
#include "check/quantisation/bench_rows.hpp"

namespace cubit::check::norm_quantize {

std::vector<BenchCase> bench_cases() {
  return quantisation::row_bench_cases({"norm_quantize", "norm_quantize:output=unquantised",
                                        "norm_quantize:output=fp8_e4m3,residual=true,input=bf16",
                                        "norm_quantize:norm=layer,residual=true,bias=true"});
}

}  // namespace cubit::check::norm_quantize
