// The argument table of gate_quantize: the tensors and numbers of cubit_gate_quantize_arguments.
#include <cubit/gate_quantize.h>

#include <utility>

#include "base/lifetime.hpp"
#include "ops/gate_quantize/gate_quantize.hpp"
#include "ops/quantisation/quantised_rows.hpp"

namespace cubit::ops::gate_quantize {
namespace {

using Struct = cubit_gate_quantize_arguments;

ArgumentTable make_table() {
  std::vector<Argument> list = {input("gate", "F16, BF16", shape("[rows, columns]"), CUBIT_MEMBER(gate),
                                      "rows that the function activates; the type follows the field input")
                                    .typed_by("input")
                                    .strided("rows", CUBIT_MEMBER(gate_stride)),
                                input("up", "F16, BF16", shape("[rows, columns]"), CUBIT_MEMBER(up),
                                      "rows that multiply the activated gates, of the same type")
                                    .typed_by("input")
                                    .strided("rows", CUBIT_MEMBER(up_stride))};
  quantisation::add_result(list, offsetof(Struct, result), false);
  list.push_back(number("rows", "int32", CUBIT_MEMBER(rows), "tokens"));
  list.push_back(number("columns", "int32", CUBIT_MEMBER(columns), "values of a row, a multiple of 16 or 32"));
  return {"cubit_gate_quantize_arguments", sizeof(Struct), std::move(list)};
}

}  // namespace

const ArgumentTable& arguments() {
  static const auto& table = never_destroyed(make_table());
  return table;
}

}  // namespace cubit::ops::gate_quantize
