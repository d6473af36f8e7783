// The cases that `cubit bench dequantize` measures.
#include "check/dequantize/problem.hpp"
#include "check/quantisation/bench_rows.hpp"

namespace cubit::check::dequantize {

std::vector<BenchCase> bench_cases() {
  return quantisation::row_bench_cases({"dequantize", "dequantize:input=int32,weight_scale=channel,bias=true",
                                        "dequantize:input=int32,weight_scale=channel,layout=col32,output=bf16",
                                        "dequantize:input=int32,weight_scale=channel,function=gelu,residual=true"});
}

}  // namespace cubit::check::dequantize
