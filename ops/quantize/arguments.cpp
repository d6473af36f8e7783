// The argument table of quantize: the tensors and numbers of cubit_quantize_arguments.
#include <cubit/quantize.h>

#include <utility>

#include "base/lifetime.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantize/quantize.hpp"

namespace cubit::ops::quantize {
namespace {

using Struct = cubit_quantize_arguments;

ArgumentTable make_table() {
  std::vector<Argument> list = {input("input", "F16, BF16", shape("[rows, columns]"), CUBIT_MEMBER(input),
                                      "rows of activations; the type follows the field input")
                                    .typed_by("input")
                                    .strided("rows", CUBIT_MEMBER(input_stride))};
  quantisation::add_result(list, offsetof(Struct, result), true);
  list.push_back(number("rows", "int32", CUBIT_MEMBER(rows), "tokens"));
  list.push_back(number("columns", "int32", CUBIT_MEMBER(columns), "values of a row, a multiple of 16 or 32"));
  return {"cubit_quantize_arguments", sizeof(Struct), std::move(list)};
}

}  // namespace

const ArgumentTable& arguments() {
  static const auto& table = never_destroyed(make_table());
  return table;
}

}  // namespace cubit::ops::quantize
