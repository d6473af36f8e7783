// The cases that `cubit bench convert_layout` measures.
#include "check/convert_layout/problem.hpp"
#include "check/quantisation/bench_rows.hpp"

namespace cubit::check::convert_layout {

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases =
      quantisation::row_bench_cases({"convert_layout", "convert_layout:from=col32,to=row",
                                     "convert_layout:to=col4_4r2_8c", "convert_layout:to=col32_2r_4r4"});
  // One row is a partial tile of the layouts of operand B.
  std::erase_if(cases, [](const BenchCase& bench) {
    return row_multiple(parse(bench.descriptor).to) > 1 && bench.sizes.at("rows") == 1;
  });
  return cases;
}

}  // namespace cubit::check::convert_layout
