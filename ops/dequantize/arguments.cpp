// The argument table of dequantize: the tensors and numbers of cubit_dequantize_arguments.
#include <cubit/dequantize.h>

#include "base/lifetime.hpp"
#include "ops/dequantize/dequantize.hpp"

namespace cubit::ops::dequantize {

const ArgumentTable& arguments() {
  using Struct = cubit_dequantize_arguments;
  constexpr const char* kOutputs = "F16, BF16";
  static const auto& table = never_destroyed(ArgumentTable{
      "cubit_dequantize_arguments",
      sizeof(Struct),
      {input("input", "I8, I32", {{"layout=row", "[rows, columns]"}, {"layout=col32", "[columns / 32, rows, 32]"}},
             CUBIT_MEMBER(input), "codes or sums; the type follows the field input")
           .typed_by("input")
           .strided("first", CUBIT_MEMBER(input_stride)),
       input("scale", "F32", {{"scale=token", "[rows]"}, {"scale=tensor", "[1]"}}, CUBIT_MEMBER(scale),
             "scale of each row, or of all rows"),
       input("weight_scale", "F32", {{"weight_scale=channel", "[columns]"}, {"weight_scale=tensor", "[1]"}},
             CUBIT_MEMBER(weight_scale), "scale of each column, or of all columns")
           .with("weight_scale=!none"),
       input("bias", kOutputs, shape("[columns]"), CUBIT_MEMBER(bias), "added before the function")
           .with("bias=true")
           .typed_by("output"),
       input("residual", kOutputs, shape("[rows, columns]"), CUBIT_MEMBER(residual), "added after the function")
           .with("residual=true")
           .typed_by("output")
           .strided("rows", CUBIT_MEMBER(residual_stride)),
       output("output", kOutputs, shape("[rows, columns]"), CUBIT_MEMBER(output),
              "the result; the type follows the field output")
           .typed_by("output")
           .strided("rows", CUBIT_MEMBER(output_stride)),
       number("rows", "int32", CUBIT_MEMBER(rows), "tokens"),
       number("columns", "int32", CUBIT_MEMBER(columns), "values of a row, a multiple of 8, 16 or 32")}});
  return table;
}

}  // namespace cubit::ops::dequantize
