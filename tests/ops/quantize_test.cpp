// quantize without running kernels: descriptor texts, the threads of rows, refusals of launches and problems, rows
// whose bytes can be worked out by hand, and the quotients of the kernels. tests/cover checks what kernels write.
#include <cubit/quantize.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "check/quantisation/quantised_rows.hpp"
#include "check/quantize/problem.hpp"
#include "ops/quantisation/row_shape.hpp"
#include "ops/quantize/quantize.hpp"
#include "templates/kernels/quantisation/quantize_arguments.h"
#include "tests/support/compiled.hpp"
#include "tests/support/descriptor_texts.hpp"
#include "tests/support/launches.hpp"
#include "tests/support/one_pass_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using check::quantisation::QuantisedRow;
using tests::address;
using tests::expect_refused;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Quantize> all_descriptors() {
  std::vector<Quantize> all;
  for (const Quantised output : {Quantised::int8, Quantised::fp8_e4m3})
    for (const ScaleScope scale : {ScaleScope::token, ScaleScope::tensor})
      for (const QuantisationScheme scheme : {QuantisationScheme::symmetric, QuantisationScheme::asymmetric})
        for (const RowLayout layout : {RowLayout::row, RowLayout::col32})
          for (const Element input : {Element::fp16, Element::bf16}) {
            const bool is_legal =
                scheme == QuantisationScheme::symmetric || (output == Quantised::int8 && scale == ScaleScope::token);
            if (is_legal) all.push_back({{output, scale, scheme, layout}, input});
          }
  return all;
}

TEST(QuantizeDescriptor, EveryValueHasOneTextThatParsesBackToIt) {
  tests::expect_one_text_each(all_descriptors(), quantize::parse);
  EXPECT_EQ(Quantize{}.text(), "quantize");
}

TEST(QuantizeDescriptor, RefusesByName) {
  expect_refused([] { quantize::parse("quantize:output=int4"); },
                 "descriptor \"quantize:output=int4\": int4 is not a value of output; accepted: int8, fp8_e4m3");
  expect_refused([] { quantize::parse("quantize:output=fp8_e4m3,scheme=asymmetric"); },
                 "descriptor \"quantize:output=fp8_e4m3,scheme=asymmetric\": scheme=asymmetric needs the integers of "
                 "output=int8; leave scheme out or ask for output=int8");
  expect_refused([] { quantize::parse("quantize:scale=tensor,scheme=asymmetric"); },
                 "descriptor \"quantize:scale=tensor,scheme=asymmetric\": scheme=asymmetric needs scale=token, whose "
                 "scales and zero points come from the rows; leave scheme out or ask for scale=token");
}

struct Shape {
  int warps;
  unsigned threads;
  unsigned blocks;
};
Shape shape_of(int rows, int columns) {
  const RowShape shape = quantisation::row_shape(rows, columns, tests::h200());
  const runtime::LaunchShape launch = quantisation::launch_shape(shape);
  return {shape.row_warps, launch.threads, launch.grid[0]};
}
void expect_shape(int rows, int columns, Shape expected) {
  const Shape found = shape_of(rows, columns);
  EXPECT_EQ(found.warps, expected.warps) << rows << " x " << columns;
  EXPECT_EQ(found.threads, expected.threads) << rows << " x " << columns;
  EXPECT_EQ(found.blocks, expected.blocks) << rows << " x " << columns;
}

TEST(RowShape, FewRowsHaveMoreThreadsEach) {
  expect_shape(1, 4096, {8, 256, 1});
  expect_shape(64, 8192, {16, 512, 64});
  expect_shape(8192, 4096, {4, 128, 8192});
  expect_shape(8192, 8192, {8, 256, 8192});
  expect_shape(8192, 5120, {5, 160, 8192});
}

TEST(RowShape, ShortRowsShareBlocksAndLongOnesFillThem) {
  expect_shape(9, 16, {1, 128, 3});
  expect_shape(100000, 2048, {2, 128, 50000});
  expect_shape(100000, 512, {1, 128, 25000});
  expect_shape(8192, 32768, {32, 1024, 8192});
  expect_shape(1, 32768, {32, 1024, 1});
  expect_shape(3, 65536, {32, 1024, 3});
}

cubit_quantize_arguments dense_arguments() {
  cubit_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = address(0x1000);
  arguments.result.output = address(0x2000);
  arguments.result.scales = address<float>(0x3000);
  arguments.result.output_stride = arguments.input_stride = arguments.columns = 96;
  arguments.rows = 3;
  return arguments;
}

TEST(QuantizeLaunch, PassesTheRowsInBytes) {
  const auto arguments = dense_arguments();
  const Launch launch = tests::encode(Quantize{}, &arguments, tests::h200());
  const auto parameters = tests::parameters_of<QuantizeArguments>(launch);
  EXPECT_EQ(parameters.input_stride, 192);
  EXPECT_EQ(parameters.result.stride, 96);
  EXPECT_EQ(parameters.result.zero_points, nullptr);
  EXPECT_EQ(parameters.shape.rows, 3);
  EXPECT_EQ(launch.shape.grid[0], 1u) << "four rows of one warp";
  auto nothing = dense_arguments();
  nothing.rows = 0;
  nothing.input = nullptr;
  EXPECT_TRUE(tests::encode(Quantize{}, &nothing, tests::h200()).empty);
}

TEST(QuantizeLaunch, RefusesByName) {
  using Given = cubit_quantize_arguments;
  const auto refused = [](void (*change)(Given&), const char* text, const std::string& sentence) {
    auto arguments = dense_arguments();
    change(arguments);
    expect_refused([&] { tests::encode(quantize::parse(text), &arguments, tests::h200()); }, sentence);
  };
  refused([](Given& a) { a.columns = 100; }, "quantize", "columns = 100: it must be a multiple of 16 from 16 to 65536");
  refused([](Given& a) { a.columns = 80; }, "quantize:layout=col32",
          "columns = 80: it must be a multiple of 32 from 32 to 65536");
  refused([](Given& a) { a.columns = 65552; }, "quantize",
          "columns = 65552: it must be a multiple of 16 from 16 to 65536");
  refused([](Given& a) { a.rows = -1; }, "quantize", "rows = -1: it must be from 0 to 2147483647");
  refused([](Given& a) { a.input = nullptr; }, "quantize", "input = NULL: the tensor is needed");
  refused([](Given& a) { a.result.scales = nullptr; }, "quantize", "result.scales = NULL: the tensor is needed");
  refused([](Given&) {}, "quantize:scheme=asymmetric", "result.zero_points = NULL: the tensor is needed");
  refused([](Given& a) { a.result.scales = nullptr; }, "quantize:scale=tensor",
          "result.scale = NULL: the tensor is needed");
  refused([](Given& a) { a.input_stride = 100; }, "quantize",
          "input stride 0 of 200 bytes: it is not a multiple of 16 bytes; align it, and pad its rows");
  refused([](Given& a) { a.result.output = address(0x2008); }, "quantize",
          "result.output at 0x2008: the address is not a multiple of 16 bytes; align it, and pad its rows");
  refused(
      [](Given& a) { a.result.output_stride = 80; }, "quantize",
      "result.output_stride = 80: outputs would overwrite one another, for the dimensions within this stride span 96 "
      "elements; accepted: a magnitude of 96 and more");
  refused(
      [](Given& a) { a.result.output_stride = 64; }, "quantize:layout=col32",
      "result.output_stride = 64: outputs would overwrite one another, for the dimensions within this stride span 96 "
      "elements; accepted: a magnitude of 96 and more");
}

QuantisedRow quantised(const char* text, const std::vector<float>& row, float scale = 0) {
  return check::quantisation::quantise(quantize::parse(text), row, scale);
}
void expect_bytes(const QuantisedRow& row, const std::vector<int>& expected) {
  ASSERT_EQ(row.bytes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(row.bytes[i], static_cast<std::uint8_t>(expected[i])) << i;
}

TEST(QuantizeReference, RoundsHalvesToEven) {
  const QuantisedRow int8 = quantised("quantize", {-127, 0.5f, 1.5f, -2.5f, 2.51f, -0.f});
  EXPECT_EQ(int8.scale, 1);
  expect_bytes(int8, {-127, 0, 2, -2, 3, 0});
  // e4m3 has the numbers 16, 18, 20, … and 2^-9, 2^-8, …
  const QuantisedRow fp8 = quantised("quantize:output=fp8_e4m3", {448, 17, 19, -17.1f, 0x1p-10f, 0x1.8p-9f, -0.f});
  EXPECT_EQ(fp8.scale, 1);
  expect_bytes(fp8, {0x7e, 0x58, 0x5a, 0xd9, 0, 2, 0});
}

TEST(QuantizeReference, AsymmetricRowsCoverTheirRangeAndZero) {
  const QuantisedRow both = quantised("quantize:scheme=asymmetric", {-100, 155, 0, 0.5f, 1.5f});
  EXPECT_EQ(both.scale, 1);
  EXPECT_EQ(both.zero_point, -28);
  expect_bytes(both, {-128, 127, -28, -28, -26});
  const QuantisedRow positive = quantised("quantize:scheme=asymmetric", {255, 100});
  EXPECT_EQ(positive.zero_point, -128);
  expect_bytes(positive, {127, -28});
  const QuantisedRow negative = quantised("quantize:scheme=asymmetric", {-255, -100});
  EXPECT_EQ(negative.zero_point, 127);
  expect_bytes(negative, {-128, 27});
}

TEST(QuantizeReference, GivenScalesSaturate) {
  expect_bytes(quantised("quantize:scale=tensor", {1000, -1000, 3, kNan, kInfinity, -kInfinity}, 2),
               {127, -127, 2, 0, 127, -127});
  expect_bytes(quantised("quantize:scale=tensor,output=fp8_e4m3", {1000, -1000, 2, kNan, kInfinity, -kInfinity}, 2),
               {0x7e, 0xfe, 0x38, 0x7f, 0x7f, 0x7f});
  for (const float scale : {kNan, 0.f, -1.f, kInfinity, 0x1p-101f}) {
    expect_bytes(quantised("quantize:scale=tensor", {1, -2}, scale), {0, 0});
    expect_bytes(quantised("quantize:scale=tensor,output=fp8_e4m3", {1, -2}, scale), {0x7f, 0x7f});
  }
}

TEST(QuantizeReference, RowsWithoutNumbersReadBackAsNan) {
  for (const char* text : {"quantize", "quantize:output=fp8_e4m3", "quantize:scheme=asymmetric"}) {
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      const QuantisedRow row = quantised(text, {1, bad, -3});
      EXPECT_EQ(std::bit_cast<std::uint32_t>(row.scale), 0x7fc00000u) << text;
      EXPECT_EQ(row.zero_point, 0);
      expect_bytes(row, {0, 0, 0});
    }
    const QuantisedRow zeros = quantised(text, {0, -0.f});
    EXPECT_EQ(zeros.scale, 1e-8f);
    EXPECT_EQ(zeros.bytes[0], zeros.bytes[1]);
  }
}

/// The arithmetic of templates/core/quotient.cuh.
float kernel_quotient(float x, float divisor) {
  const auto reciprocal = static_cast<float>(1 / static_cast<double>(divisor));
  const float near = x * reciprocal;
  return std::fma(std::fma(-divisor, near, x), reciprocal, near);
}

// A quotient that is rounded wrongly changes a result only beside a tie of 8-bit results, that is beside an odd number
// of halves. The test takes every 11-bit dividend and every odd number, and all divisors around the one whose quotient
// is that number.
TEST(QuantizeQuotients, EqualDivisionsBesideEveryTie) {
  for (int halves = 1; halves < 256; halves += 2) {
    for (int dividend = 1024; dividend < 2048; ++dividend) {
      const auto x = static_cast<float>(dividend);
      auto divisor = static_cast<float>(2.0 * dividend / halves);
      for (int i = 0; i < 8; ++i) divisor = std::nextafter(divisor, 0.f);
      for (int i = 0; i < 16; ++i, divisor = std::nextafter(divisor, kInfinity))
        ASSERT_EQ(kernel_quotient(x, divisor), x / divisor) << x << " / " << divisor;
    }
  }
}

TEST(QuantizeProblem, CountsEveryNumberThatDiffers) {
  std::vector<std::uint16_t> values(2 * 32, 0x3c00);  // 1 in fp16
  const std::vector<check::Tensor> tensors = {{"input", "F16", {2, 32}, {}, values.data()}};
  const char* const text = "quantize:layout=col32";
  const auto problem = check::find_problems(text).problem(text, tensors, {});
  ASSERT_EQ(problem->outputs().size(), 2u);
  EXPECT_EQ(problem->outputs()[0].shape, (std::vector<std::int64_t>{1, 2, 32}));
  EXPECT_EQ(problem->bytes_read(), 128u);
  EXPECT_EQ(problem->bytes_written(), 64u + 8);
  std::vector<std::uint8_t> bytes(64, 127);
  std::vector<float> scales(2, 1 / 127.f);
  const void* got[] = {bytes.data(), scales.data()};
  EXPECT_EQ(problem->compare(got).error, 0);
  bytes[40] = 126;
  scales[1] = kNan;
  EXPECT_EQ(problem->compare(got).error, 2);
  EXPECT_EQ(problem->compare(got).worst, "row 1");
}

TEST(QuantizeProblem, RefusesByName) {
  std::vector<std::uint16_t> values(64);
  float scale = 0;
  const auto refused = [&](const char* text, const std::vector<check::Tensor>& tensors, const std::string& sentence) {
    expect_refused([&] { check::find_problems(text).problem(text, tensors, {}); }, sentence);
  };
  const check::Tensor input{"input", "F16", {2, 32}, {}, values.data()};
  refused("quantize", {}, "tensors without input: quantize needs it");
  refused("quantize:input=bf16", {input}, "tensor input of type F16: it must be BF16; or ask for input=fp16");
  refused("quantize:scale=tensor", {input, {"scale", "F32", {1}, {}, &scale}},
          "scale = 0: a given scale must be a positive number; accepted: numbers from 2^-100 to 2^100");
  refused("quantize:scale=tensor", {input, {"scale", "F32", {2}, {}, &scale}},
          "tensor scale [2]: it must have the dimensions [1]; accepted beside the other tensors: [1]");
  expect_refused(
      [&] {
        check::find_problems("quantize").problem("quantize", {{input}}, {{"n", 1}});
      },
      "number n: quantize takes no numbers; leave it out");
  expect_refused(
      [] {
        check::find_problems("quantize").random("quantize", {{"m", 2}}, 1);
      },
      "size m: quantize has no such size; accepted: rows, columns, pattern, special");
}

// Compiles every third descriptor for one architecture, in rotation. tests/cover compiles and runs other descriptors.
TEST(QuantizePlan, CompilesForEveryArchitectureWithoutSpills) {
  std::vector<std::string> texts;
  for (const Quantize& descriptor : all_descriptors()) texts.push_back(descriptor.text());
  constexpr int kMostRegisters = 64;  // a block has up to 1024 threads
  tests::expect_no_spills(tests::some_in_turn(texts, 3), kMostRegisters);
}

}  // namespace
}  // namespace cubit::ops
