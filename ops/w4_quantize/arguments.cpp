// The argument table of w4_quantize: the tensors and numbers of cubit_w4_quantize_arguments.
#include <cubit/w4_quantize.h>

#include <utility>

#include "base/lifetime.hpp"
#include "ops/w4_quantize/w4_quantize.hpp"

namespace cubit::ops::w4_quantize {
namespace {

using Struct = cubit_w4_quantize_arguments;

ArgumentTable make_table() {
  const std::vector<ShapeRule> groups = {{"group_size=all", "[1, n]"}, {"", "[ceil(k / group_size), n]"}};
  std::vector<Argument> list = {
      input("weights", "F16, BF16", shape("[n, k]"), CUBIT_MEMBER(weights),
            "weights as a linear layer has them; the type follows input")
          .typed_by("input")
          .strided("n", CUBIT_MEMBER(weight_stride)),
      output("qweight", "I32", {{"format=awq", "[k, n / 8]"}, {"", "[k / 8, n]"}}, CUBIT_MEMBER(qweight),
             "packed weights, as w4a16_gemm takes them"),
      output("qzeros", "I32", {{"group_size=all", "[1, n / 8]"}, {"", "[ceil(k / group_size), n / 8]"}},
             CUBIT_MEMBER(qzeros), "packed zeros of the groups")
          .with("format=gptq|gptq_v2|awq"),
      output("scales", "F16", groups, CUBIT_MEMBER(scales), "scales of the groups"),
      output("max_error", "F32", groups, CUBIT_MEMBER(max_error),
             "largest error of a group's weights; a problem leaves it out with the number errors=0")
          .optional("not written"),
      output("rms_error", "F32", groups, CUBIT_MEMBER(rms_error), "root of the mean square error of a group's weights")
          .optional("not written"),
      number("n", "int32", CUBIT_MEMBER(n), "output features, a multiple of 8"),
      number("k", "int32", CUBIT_MEMBER(k), "input features, a multiple of 8")};
  return {"cubit_w4_quantize_arguments", sizeof(Struct), std::move(list)};
}

}  // namespace

const ArgumentTable& arguments() {
  static const auto& table = never_destroyed(make_table());
  return table;
}

}  // namespace cubit::ops::w4_quantize
