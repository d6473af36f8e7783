// The argument table of convert_layout: the tensors and numbers of cubit_convert_layout_arguments.
#include <cubit/convert_layout.h>

#include "base/lifetime.hpp"
#include "ops/convert_layout/convert_layout.hpp"

namespace cubit::ops::convert_layout {

const ArgumentTable& arguments() {
  using Struct = cubit_convert_layout_arguments;
  constexpr const char* kTypes = "I8, U8, F8_E4M3";
  static const auto& table = never_destroyed(ArgumentTable{
      "cubit_convert_layout_arguments",
      sizeof(Struct),
      {input("input", kTypes,
             {{"from=row", "[rows, columns]"}, {"from=col32|col4_4r2_8c|col32_2r_4r4", "[columns / 32, rows, 32]"}},
             CUBIT_MEMBER(input), "the matrix in the layout of the field from")
           .strided("first", CUBIT_MEMBER(input_stride)),
       output("output", kTypes,
              {{"to=row", "[rows, columns]"}, {"to=col32|col4_4r2_8c|col32_2r_4r4", "[columns / 32, rows, 32]"}},
              CUBIT_MEMBER(output), "the matrix in the layout of the field to, of the type of input")
           .strided("first", CUBIT_MEMBER(output_stride)),
       number("rows", "int32", CUBIT_MEMBER(rows), "rows, a multiple of what the layouts need"),
       number("columns", "int32", CUBIT_MEMBER(columns), "columns, a multiple of 32")}});
  return table;
}

}  // namespace cubit::ops::convert_layout
