// dequantize without running kernels: descriptor texts, launches and their refusals, problems, and rows that can be
// worked out by hand. tests/cover checks what kernels write.
#include <cubit/dequantize.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "check/dequantize/problem.hpp"
#include "ops/dequantize/dequantize.hpp"
#include "templates/kernels/quantisation/dequantize_arguments.h"
#include "tests/support/compiled.hpp"
#include "tests/support/descriptor_texts.hpp"
#include "tests/support/launches.hpp"
#include "tests/support/one_pass_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::expect_refused;

std::vector<Dequantize> all_dequantisations() {
  std::vector<Dequantize> all;
  for (const QuantisedInteger input : {QuantisedInteger::int8, QuantisedInteger::int32})
    for (const ScaleScope scale : {ScaleScope::token, ScaleScope::tensor})
      for (const WeightScale weights : {WeightScale::none, WeightScale::tensor, WeightScale::channel})
        for (const GemmFunction function :
             {GemmFunction::none, GemmFunction::relu, GemmFunction::silu, GemmFunction::gelu, GemmFunction::gelu_tanh})
          for (const bool adds : {false, true})
            for (const RowLayout layout : {RowLayout::row, RowLayout::col32})
              for (const Element output : {Element::fp16, Element::bf16})
                all.push_back({input, scale, weights, function, adds, !adds, layout, output});
  return all;
}

TEST(DequantizeDescriptor, EveryValueHasOneTextThatParsesBackToIt) {
  tests::expect_one_text_each(all_dequantisations(), dequantize::parse);
  EXPECT_EQ(Dequantize{}.text(), "dequantize");
}

TEST(DequantizeDescriptor, RefusesByName) {
  expect_refused([] { dequantize::parse("dequantize:input=fp8_e4m3"); },
                 "descriptor \"dequantize:input=fp8_e4m3\": fp8_e4m3 is not a value of input; accepted: int8, int32");
  expect_refused([] { dequantize::parse("dequantize:function=silu_gate"); },
                 "descriptor \"dequantize:function=silu_gate\": silu_gate is not a value of function; accepted: none, "
                 "relu, silu, gelu, gelu_tanh");
}

cubit_dequantize_arguments full_arguments() {
  cubit_dequantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = address(0x1000);
  arguments.scale = address<float>(0x2000);
  arguments.output = address(0x3000);
  arguments.input_stride = arguments.output_stride = arguments.columns = 96;
  arguments.rows = 3;
  return arguments;
}

TEST(DequantizeLaunch, GivesManyRowsToEachThread) {
  auto arguments = full_arguments();
  const Launch few = tests::encode(Dequantize{}, &arguments, tests::h200());
  EXPECT_EQ(tests::parameters_of<DequantizeArguments>(few).rows_per_thread, 1);
  EXPECT_EQ(tests::parameters_of<DequantizeArguments>(few).vectors, 12);
  EXPECT_EQ(tests::parameters_of<DequantizeArguments>(few).output_stride, 192);
  EXPECT_EQ(few.shape.grid[0], 1u);
  arguments.rows = 100'000;
  const Launch many = tests::encode(Dequantize{}, &arguments, tests::h200());
  EXPECT_EQ(tests::parameters_of<DequantizeArguments>(many).rows_per_thread, 4);
  EXPECT_EQ(many.shape.grid[0], (25'000u * 12 + 127) / 128);
  arguments.rows = 0;
  arguments.input = nullptr;
  EXPECT_TRUE(tests::encode(Dequantize{}, &arguments, tests::h200()).empty);
}

TEST(DequantizeLaunch, RefusesByName) {
  using Given = cubit_dequantize_arguments;
  const auto refused = [](void (*change)(Given&), const char* text, const std::string& sentence) {
    auto arguments = full_arguments();
    change(arguments);
    expect_refused([&] { tests::encode(dequantize::parse(text), &arguments, tests::h200()); }, sentence);
  };
  refused([](Given& a) { a.columns = 88; }, "dequantize",
          "columns = 88: it must be a multiple of 16 from 16 to 2147483632");
  refused([](Given& a) { a.columns = 84; }, "dequantize:input=int32",
          "columns = 84: it must be a multiple of 8 from 8 to 2147483640");
  refused([](Given& a) { a.columns = 80; }, "dequantize:layout=col32",
          "columns = 80: it must be a multiple of 32 from 32 to 2147483616");
  refused([](Given& a) { a.rows = -1; }, "dequantize", "rows = -1: it must be from 0 to 2147483647");
  refused([](Given& a) { a.rows = a.columns = 1 << 20; }, "dequantize",
          "rows * columns = 1099511627776: it must be at most 68719476736");
  refused([](Given& a) { a.scale = nullptr; }, "dequantize", "scale = NULL: the tensor is needed");
  refused([](Given&) {}, "dequantize:weight_scale=channel", "weight_scale = NULL: the tensor is needed");
  refused([](Given&) {}, "dequantize:bias=true", "bias = NULL: the tensor is needed");
  refused([](Given&) {}, "dequantize:residual=true", "residual = NULL: the tensor is needed");
  refused([](Given& a) { a.input_stride = 100; }, "dequantize",
          "input stride 0 of 100 bytes: it is not a multiple of 16 bytes; align it, and pad its rows");
  refused([](Given& a) { a.weight_scale = address<float>(0x2004); }, "dequantize:weight_scale=channel",
          "weight_scale at 0x2004: the address is not a multiple of 16 bytes; align it");
  refused([](Given& a) { a.output_stride = 80; }, "dequantize",
          "output_stride = 80: outputs would overwrite one another, for the dimensions within this stride span 96 "
          "elements; accepted: a magnitude of 96 and more");
}

// 2 · 0.5 · 4 + 1 = 5, and -3 · 0.5 · 4 + 1 = -5, which relu makes 0; then the residual 2 is added.
TEST(DequantizeReference, AppliesTheFormulaInOrder) {
  std::vector<std::int32_t> sums(8, 2);
  sums[3] = -3;
  float scale = 0.5f;
  std::vector<float> weight_scale(8, 4.f);
  std::vector<std::uint16_t> bias(8, 0x3c00);      // 1
  std::vector<std::uint16_t> residual(8, 0x4000);  // 2
  const std::vector<check::Tensor> tensors = {{"input", "I32", {1, 8}, {}, sums.data()},
                                              {"scale", "F32", {1}, {}, &scale},
                                              {"weight_scale", "F32", {8}, {}, weight_scale.data()},
                                              {"bias", "F16", {8}, {}, bias.data()},
                                              {"residual", "F16", {1, 8}, {}, residual.data()}};
  const char* const text = "dequantize:input=int32,weight_scale=channel,function=relu,bias=true,residual=true";
  const auto problem = check::find_problems(text).problem(text, tensors, {});
  EXPECT_EQ(problem->bytes_read(), 32u + 4 + 32 + 16 + 16);
  EXPECT_EQ(problem->bytes_written(), 16u);
  std::vector<std::uint16_t> expected(8, 0x4700);  // 7
  expected[3] = 0x4000;
  const void* got[] = {expected.data()};
  EXPECT_EQ(problem->compare(got).error, 0);
  expected[5] = 0x4702;
  EXPECT_GT(problem->compare(got).error, 1);
  expected[5] = 0x7e00;  // NaN
  EXPECT_EQ(problem->compare(got).error, std::numeric_limits<double>::infinity());
}

TEST(DequantizeProblem, RefusesByName) {
  std::vector<std::int8_t> codes(64);
  std::vector<float> scales(32);
  const auto refused = [&](const char* text, const std::vector<check::Tensor>& tensors, const std::string& sentence) {
    expect_refused([&] { check::find_problems(text).problem(text, tensors, {}); }, sentence);
  };
  const check::Tensor input{"input", "I8", {2, 32}, {}, codes.data()};
  refused("dequantize", {input}, "tensors without scale: dequantize needs it");
  refused("dequantize", {input, {"scale", "F32", {1}, {}, scales.data()}},
          "tensor scale [1]: it must have the dimensions [rows]; accepted beside the other tensors: [2]");
  refused("dequantize:weight_scale=channel",
          {input, {"scale", "F32", {2}, {}, scales.data()}, {"weight_scale", "F32", {2}, {}, scales.data()}},
          "tensor weight_scale [2]: it must have the dimensions [columns]; accepted beside the other tensors: [32]");
  expect_refused(
      [] {
        check::find_problems("dequantize").random("dequantize", {{"pattern", 2}}, 1);
      },
      "size pattern: dequantize has no such size; accepted: rows, columns, special");
}

// Compiles every 17th descriptor for one architecture, in rotation. tests/cover compiles and runs other descriptors.
TEST(DequantizePlan, CompilesForEveryArchitectureWithoutSpills) {
  std::vector<std::string> texts;
  for (const Dequantize& descriptor : all_dequantisations()) texts.push_back(descriptor.text());
  constexpr int kMostRegisters = 128;
  tests::expect_no_spills(tests::some_in_turn(texts, 17), kMostRegisters);
}

}  // namespace
}  // namespace cubit::ops
