// The argument table of w8a8_gemm: the tensors and numbers of cubit_w8a8_gemm_arguments.
#include <cubit/w8a8_gemm.h>

#include <utility>

#include "base/lifetime.hpp"
#include "ops/w8a8_gemm/w8a8_gemm.hpp"

namespace cubit::ops::w8a8_gemm {
namespace {

using Struct = cubit_w8a8_gemm_arguments;

std::vector<ShapeRule> output_shapes() { return {{"function=silu_gate", "[m, n / 2]"}, {"", "[m, n]"}}; }

ArgumentTable make_table() {
  std::vector<Argument> list = {
      input("activations", "I8, F8_E4M3", shape("[m, k]"), CUBIT_MEMBER(activations),
            "activations; the type follows element")
          .typed_by("element")
          .strided("m", CUBIT_MEMBER(activation_stride)),
      input("weights", "I8, F8_E4M3", shape("[n, k]"), CUBIT_MEMBER(weights), "weights of the same type")
          .typed_by("element"),
      input("activation_scales", "F32", {{"activation_scale=token", "[m]"}, {"", "[1]"}},
            CUBIT_MEMBER(activation_scales), "scales of the activations")
          .with("output=!int32"),
      input("weight_scales", "F32", {{"weight_scale=channel", "[n]"}, {"", "[1]"}}, CUBIT_MEMBER(weight_scales),
            "scales of the weights")
          .with("output=!int32"),
      input("activation_zeros", "I32", {{"activation_scale=token", "[m]"}, {"", "[1]"}}, CUBIT_MEMBER(activation_zeros),
            "zero points of the activations")
          .with("zero_points=true"),
      input("weight_sums", "I32", shape("[n]"), CUBIT_MEMBER(weight_sums),
            "sums of the rows of the weights, from weight_sums")
          .with("zero_points=true"),
      input("output_scale", "F32", shape("[1]"), CUBIT_MEMBER(output_scale), "scale of the output")
          .with("output=int8|fp8_e4m3"),
      input("second_scale", "F32", shape("[1]"), CUBIT_MEMBER(second_scale), "scale of the second output")
          .with("second_output=int8|fp8_e4m3"),
      input("bias", "F16, BF16", shape("[n]"), CUBIT_MEMBER(bias), "added before the function")
          .with("bias=true")
          .typed_by("output|addend"),
      input("residual", "F16, BF16", output_shapes(), CUBIT_MEMBER(residual),
            "added to the result; may be an output of 16 bits")
          .with("residual=true")
          .typed_by("output|addend")
          .strided("m", CUBIT_MEMBER(residual_stride)),
      output("output", "F16, BF16, I32, I8, F8_E4M3", output_shapes(), CUBIT_MEMBER(output), "the result")
          .typed_by("output")
          .strided("m", CUBIT_MEMBER(output_stride)),
      output("second_output", "I8, F8_E4M3", output_shapes(), CUBIT_MEMBER(second_output),
             "the result as stored, quantised by one scale")
          .with("second_output=int8|fp8_e4m3")
          .typed_by("second_output")
          .strided("m", CUBIT_MEMBER(second_stride)),
      number("m", "int32", CUBIT_MEMBER(m), "rows of the activations"),
      number("n", "int32", CUBIT_MEMBER(n), "rows of the weights, a multiple of 8"),
      number("k", "int32", CUBIT_MEMBER(k), "values of a row, a multiple of 16"),
      number("decomposition", "int32", CUBIT_MEMBER(decomposition),
             "a cubit_w8a8_decomposition, for tuning: 1 data-parallel, 2 split-K, 3 stream-K, 4 split-K by atomics, "
             "which needs atomic_splits=true")
          .optional("0, cubit decides"),
      number("splits", "int32", CUBIT_MEMBER(splits), "split-K factor, for tuning, at most 256")
          .optional("0, cubit decides"),
      number(
          "constant_weights", "int32", CUBIT_MEMBER(constant_weights),
          "1: no kernel that may still run when this launch begins writes the weights, so an overlapping launch copies "
          "them at once")
          .optional("0")};
  return {"cubit_w8a8_gemm_arguments", sizeof(Struct), std::move(list)};
}

}  // namespace

const ArgumentTable& arguments() {
  static const auto& table = never_destroyed(make_table());
  return table;
}

PointerChecks pointer_checks(const W8a8Gemm& descriptor) {
  static const auto& help = never_destroyed(help_of(fields()));
  return PointerChecks(arguments(), help, descriptor.text());
}

}  // namespace cubit::ops::w8a8_gemm
