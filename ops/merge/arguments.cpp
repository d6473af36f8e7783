// The argument table of merge: the tensors and numbers of cubit_merge_arguments.
#include <cubit/merge.h>

#include <utility>

#include "base/lifetime.hpp"
#include "ops/merge/merge.hpp"

namespace cubit::ops::merge {
namespace {

using Struct = cubit_merge_arguments;

ArgumentTable make_table() {
  std::vector<Argument> list = {
      input("partial_outputs", "BF16, F16, F32", shape("[parts, rows..., heads, head_dim]"),
            CUBIT_MEMBER(partial_outputs),
            "partial results of attention; the type follows input, and the dimensions of queries are free")
          .typed_by("input")
          .strided("parts, rows, heads", CUBIT_MEMBER(partial_output_strides)),
      input("partial_lse", "F32", shape("[parts, rows..., heads]"), CUBIT_MEMBER(partial_lse),
            "natural log-sum-exp of each partial result; -inf marks an empty one")
          .strided("parts, rows, heads", CUBIT_MEMBER(partial_lse_strides)),
      output("output", "BF16, F16, F32", shape("[rows..., heads, head_dim]"), CUBIT_MEMBER(output),
             "the merged result; the type follows output")
          .typed_by("output")
          .strided("rows, heads", CUBIT_MEMBER(output_strides)),
      output("lse", "F32", shape("[rows..., heads]"), CUBIT_MEMBER(lse),
             "log-sum-exp of the merged result; a problem writes it with the number lse=1")
          .optional("not written")
          .strided("rows, heads", CUBIT_MEMBER(lse_strides)),
      number("parts", "int32", CUBIT_MEMBER(parts), "partial results, at least 1"),
      number("rows", "int32", CUBIT_MEMBER(rows), "queries of all sequences together"),
      number("heads", "int32", CUBIT_MEMBER(heads), "query heads, at least 1")};
  return {"cubit_merge_arguments", sizeof(Struct), std::move(list)};
}

}  // namespace

const ArgumentTable& arguments() {
  static const auto& table = never_destroyed(make_table());
  return table;
}

}  // namespace cubit::ops::merge
