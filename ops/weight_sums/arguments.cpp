// The argument table of weight_sums: the tensors and numbers of cubit_weight_sums_arguments.
#include <cubit/weight_sums.h>

#include "base/lifetime.hpp"
#include "ops/weight_sums/weight_sums.hpp"

namespace cubit::ops::weight_sums {

const ArgumentTable& arguments() {
  using Struct = cubit_weight_sums_arguments;
  static const auto& table = never_destroyed(
      ArgumentTable{"cubit_weight_sums_arguments",
                    sizeof(Struct),
                    {input("weights", "I8", shape("[n, k]"), CUBIT_MEMBER(weights), "weights; rows are contiguous"),
                     output("sums", "I32", shape("[n]"), CUBIT_MEMBER(sums), "the sum of each row"),
                     number("n", "int32", CUBIT_MEMBER(n), "rows of the weights"),
                     number("k", "int32", CUBIT_MEMBER(k), "values of a row, a multiple of 16")}});
  return table;
}

}  // namespace cubit::ops::weight_sums
