// The argument table of norm_quantize: the tensors and numbers of cubit_norm_quantize_arguments.
#include <cubit/norm_quantize.h>

#include <utility>

#include "base/lifetime.hpp"
#include "ops/norm_quantize/norm_quantize.hpp"
#include "ops/quantisation/quantised_rows.hpp"

namespace cubit::ops::norm_quantize {
namespace {

using Struct = cubit_norm_quantize_arguments;

constexpr const char* kTypes = "F16, BF16";

ArgumentTable make_table() {
  std::vector<Argument> list = {
      input("input", kTypes, shape("[rows, columns]"), CUBIT_MEMBER(input),
            "rows of activations; the type follows the field input, as that of all 16-bit tensors")
          .typed_by("input")
          .strided("rows", CUBIT_MEMBER(input_stride)),
      input("residual", kTypes, shape("[rows, columns]"), CUBIT_MEMBER(residual), "added to the input")
          .with("residual=true")
          .typed_by("input")
          .strided("rows", CUBIT_MEMBER(residual_stride)),
      input("weight", kTypes, shape("[columns]"), CUBIT_MEMBER(weight), "multiplies the normalised row")
          .typed_by("input"),
      input("bias", kTypes, shape("[columns]"), CUBIT_MEMBER(bias), "added to the normalised row")
          .with("bias=true")
          .typed_by("input"),
      output("sum", kTypes, shape("[rows, columns]"), CUBIT_MEMBER(sum), "input plus residual")
          .with("residual=true")
          .typed_by("input")
          .strided("rows", CUBIT_MEMBER(sum_stride))};
  quantisation::add_result(list, offsetof(Struct, result), false);
  list.push_back(number("rows", "int32", CUBIT_MEMBER(rows), "tokens"));
  list.push_back(number("columns", "int32", CUBIT_MEMBER(columns), "values of a row, a multiple of 16 or 32"));
  list.push_back(number("epsilon", "float", CUBIT_MEMBER(epsilon), "added to the variance or the mean square"));
  return {"cubit_norm_quantize_arguments", sizeof(Struct), std::move(list)};
}

}  // namespace

const ArgumentTable& arguments() {
  static const auto& table = never_destroyed(make_table());
  return table;
}

}  // namespace cubit::ops::norm_quantize
