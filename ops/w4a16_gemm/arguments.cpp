// The argument table of w4a16_gemm: the tensors and numbers of cubit_w4a16_gemm_arguments.
#include <cubit/w4a16_gemm.h>

#include <utility>

#include "base/lifetime.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

using Struct = cubit_w4a16_gemm_arguments;

constexpr const char* kPacked = "format=gptq|gptq_v2|awq|symmetric";

std::vector<ShapeRule> output_shapes() {
  return {{"function=silu_gate,layers=2", "[m, n]"},
          {"function=silu_gate", "[m, n / 2]"},
          {"layers=2", "[m, n + n_2]"},
          {"layers=3", "[m, n + n_2 + n_3]"},
          {"", "[m, n]"}};
}

/// The second layer.
std::vector<Argument> tensors_of_second_layer() {
  return {input("qweight_2", "I32", {{"format=awq", "[k, n_2 / 8]"}, {"bits=8", "[k / 4, n_2]"}, {"", "[k / 8, n_2]"}},
                CUBIT_MEMBER(qweight_2), "packed weights of the second layer")
              .with("layers=2|3"),
          input("scales_2", "F16",
                {{"activation_order=true", "[groups, n_2]"},
                 {"group_size=all", "[1, n_2]"},
                 {"", "[ceil(k / group_size), n_2]"}},
                CUBIT_MEMBER(scales_2), "its scales")
              .with("layers=2|3"),
          input("qzeros_2", "I32",
                {{"bits=8,activation_order=true", "[groups, n_2 / 4]"},
                 {"bits=8,group_size=all", "[1, n_2 / 4]"},
                 {"bits=8", "[ceil(k / group_size), n_2 / 4]"},
                 {"activation_order=true", "[groups, n_2 / 8]"},
                 {"group_size=all", "[1, n_2 / 8]"},
                 {"", "[ceil(k / group_size), n_2 / 8]"}},
                CUBIT_MEMBER(qzeros_2), "its packed zeros")
              .with("layers=2|3,format=gptq|gptq_v2|awq"),
          input("bias_2", "F16, BF16", shape("[n_2]"), CUBIT_MEMBER(bias_2), "its bias")
              .with("layers=2|3,bias=true")
              .typed_by("element")};
}

std::vector<Argument> tensors_of_third_layer() {
  return {input("qweight_3", "I32", {{"format=awq", "[k, n_3 / 8]"}, {"bits=8", "[k / 4, n_3]"}, {"", "[k / 8, n_3]"}},
                CUBIT_MEMBER(qweight_3), "packed weights of the third layer")
              .with("layers=3"),
          input("scales_3", "F16",
                {{"activation_order=true", "[groups, n_3]"},
                 {"group_size=all", "[1, n_3]"},
                 {"", "[ceil(k / group_size), n_3]"}},
                CUBIT_MEMBER(scales_3), "its scales")
              .with("layers=3"),
          input("qzeros_3", "I32",
                {{"bits=8,activation_order=true", "[groups, n_3 / 4]"},
                 {"bits=8,group_size=all", "[1, n_3 / 4]"},
                 {"bits=8", "[ceil(k / group_size), n_3 / 4]"},
                 {"activation_order=true", "[groups, n_3 / 8]"},
                 {"group_size=all", "[1, n_3 / 8]"},
                 {"", "[ceil(k / group_size), n_3 / 8]"}},
                CUBIT_MEMBER(qzeros_3), "its packed zeros")
              .with("layers=3,format=gptq|gptq_v2|awq"),
          input("bias_3", "F16, BF16", shape("[n_3]"), CUBIT_MEMBER(bias_3), "its bias")
              .with("layers=3,bias=true")
              .typed_by("element")};
}

std::vector<Argument> tensors() {
  return {
      input("activations", "F16, BF16", shape("[m, k]"), CUBIT_MEMBER(activations),
            "activations; the type follows element")
          .typed_by("element")
          .strided("m", CUBIT_MEMBER(activation_stride)),
      input("qweight", "I32", {{"format=awq", "[k, n / 8]"}, {"bits=8", "[k / 4, n]"}, {"", "[k / 8, n]"}},
            CUBIT_MEMBER(qweight), "packed weights, as a checkpoint stores them")
          .with(kPacked),
      input("weight", "F16, BF16", shape("[n, k]"), CUBIT_MEMBER(weight),
            "dense weights, as a checkpoint stores them; the type follows element")
          .with("format=dense")
          .typed_by("element")
          .strided("n", CUBIT_MEMBER(weight_stride)),
      input("scales", "F16",
            {{"activation_order=true", "[groups, n]"}, {"group_size=all", "[1, n]"}, {"", "[ceil(k / group_size), n]"}},
            CUBIT_MEMBER(scales), "scales of the groups; a problem also takes BF16 scales that F16 represents exactly")
          .with(kPacked),
      input("qzeros", "I32",
            {{"bits=8,activation_order=true", "[groups, n / 4]"},
             {"bits=8,group_size=all", "[1, n / 4]"},
             {"bits=8", "[ceil(k / group_size), n / 4]"},
             {"activation_order=true", "[groups, n / 8]"},
             {"group_size=all", "[1, n / 8]"},
             {"", "[ceil(k / group_size), n / 8]"}},
            CUBIT_MEMBER(qzeros), "packed zeros of the groups")
          .with("format=gptq|gptq_v2|awq"),
      input("g_idx", "I32", shape("[k]"), CUBIT_MEMBER(g_idx),
            "group of each k; a problem also takes the trivial one, k / group_size")
          .with("activation_order=true")
          .checked_by_operator(),
      input("bias", "F16, BF16", shape("[n]"), CUBIT_MEMBER(bias),
            "bias; a problem rounds F16, BF16 and F32 to the activations' type")
          .with("bias=true")
          .typed_by("element"),
      input("residual", "F16, BF16", output_shapes(), CUBIT_MEMBER(residual), "added to the result; may be the output")
          .with("residual=true")
          .typed_by("element")
          .strided("m", CUBIT_MEMBER(residual_stride))};
}

ArgumentTable make_table() {
  std::vector<Argument> list = tensors();
  for (auto* const of_layer : {tensors_of_second_layer, tensors_of_third_layer})
    for (Argument& tensor : of_layer()) list.push_back(std::move(tensor));
  list.push_back(output("output", "F16, BF16", output_shapes(), CUBIT_MEMBER(output), "the result")
                     .typed_by("element")
                     .strided("m", CUBIT_MEMBER(output_stride)));
  list.push_back(number("m", "int32", CUBIT_MEMBER(m), "rows of the activations"));
  list.push_back(
      number("n", "int32", CUBIT_MEMBER(n), "columns of the weights, or of the first layer's, a multiple of 8"));
  list.push_back(number("k", "int32", CUBIT_MEMBER(k), "rows of the weights, a multiple of 8"));
  list.push_back(number("decomposition", "int32", CUBIT_MEMBER(decomposition),
                        "a cubit_w4a16_decomposition, for tuning: 1 data-parallel, 2 split-K, 3 stream-K, 4 split-K by "
                        "atomics, which needs atomic_splits=true")
                     .optional("0, cubit decides"));
  list.push_back(number("splits", "int32", CUBIT_MEMBER(splits), "split-K factor, for tuning, at most 256")
                     .optional("0, cubit decides"));
  list.push_back(number("groups", "int32", CUBIT_MEMBER(groups),
                        "activation_order=true: rows of scales and qzeros, which a slice of k shares with the layer")
                     .optional("0, ceil(k / group_size)"));
  list.push_back(
      number("n_2", "int32", CUBIT_MEMBER(n_2), "columns of the second layer, a multiple of 8; with silu_gate n")
          .with("layers=2|3"));
  list.push_back(
      number("n_3", "int32", CUBIT_MEMBER(n_3), "columns of the third layer, a multiple of 8").with("layers=3"));
  return {"cubit_w4a16_gemm_arguments", sizeof(Struct), std::move(list)};
}

}  // namespace

const ArgumentTable& arguments() {
  static const auto& table = never_destroyed(make_table());
  return table;
}

PointerChecks pointer_checks(const W4a16Gemm& descriptor) {
  static const auto& help = never_destroyed(help_of(fields()));
  return PointerChecks(arguments(), help, descriptor.text());
}

}  // namespace cubit::ops::w4a16_gemm
