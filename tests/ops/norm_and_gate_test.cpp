// norm_quantize and gate_quantize without running kernels: descriptor texts, refusals of launches and problems, and the
// comparison with rows that are worked out by hand. tests/cover checks what kernels write.
#include <cubit/gate_quantize.h>
#include <cubit/norm_quantize.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "check/quantisation/row_comparison.hpp"
#include "ops/gate_quantize/gate_quantize.hpp"
#include "ops/norm_quantize/norm_quantize.hpp"
#include "templates/kernels/quantisation/gate_quantize_arguments.h"
#include "templates/kernels/quantisation/norm_quantize_arguments.h"
#include "tests/support/compiled.hpp"
#include "tests/support/descriptor_texts.hpp"
#include "tests/support/launches.hpp"
#include "tests/support/one_pass_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::expect_refused;

std::vector<RowQuantisation> all_results() {
  constexpr auto kSymmetric = QuantisationScheme::symmetric;
  std::vector<RowQuantisation> all = {{Quantised::none, ScaleScope::token, kSymmetric, RowLayout::row}};
  for (const RowLayout layout : {RowLayout::row, RowLayout::col32}) {
    for (const Quantised output : {Quantised::int8, Quantised::fp8_e4m3})
      for (const ScaleScope scale : {ScaleScope::token, ScaleScope::tensor})
        all.push_back({output, scale, kSymmetric, layout});
    all.push_back({Quantised::int8, ScaleScope::token, QuantisationScheme::asymmetric, layout});
  }
  return all;
}

std::vector<NormQuantize> all_norms() {
  std::vector<NormQuantize> all;
  for (const RowQuantisation& result : all_results())
    for (const Norm norm : {Norm::rms, Norm::layer})
      for (const bool residual : {false, true})
        for (const bool bias : {false, true})
          for (const Element input : {Element::fp16, Element::bf16})
            all.push_back({result, norm, residual, bias, input});
  return all;
}

std::vector<GateQuantize> all_gates() {
  std::vector<GateQuantize> all;
  for (const RowQuantisation& result : all_results())
    for (const GateFunction function : {GateFunction::silu, GateFunction::gelu, GateFunction::gelu_tanh})
      for (const Element input : {Element::fp16, Element::bf16}) all.push_back({result, function, input});
  return all;
}

TEST(NormAndGateDescriptors, EveryValueHasOneTextThatParsesBackToIt) {
  tests::expect_one_text_each(all_norms(), norm_quantize::parse);
  tests::expect_one_text_each(all_gates(), gate_quantize::parse);
}

TEST(NormAndGateDescriptors, RefuseFieldsOfAScaleWithoutOne) {
  for (const char* const field : {"scale=token", "scheme=symmetric", "layout=row"}) {
    const std::string name(field, std::string(field).find('='));
    const std::string text = std::string("norm_quantize:output=unquantised,") + field;
    expect_refused([&] { norm_quantize::parse(text); },
                   "descriptor \"" + text + "\": the field " + name +
                       " does not apply to output=unquantised, which stores 16-bit rows; leave it out or ask for "
                       "output=int8 or output=fp8_e4m3");
  }
  expect_refused([] { gate_quantize::parse("gate_quantize:function=relu"); },
                 "descriptor \"gate_quantize:function=relu\": relu is not a value of function; accepted: silu, gelu, "
                 "gelu_tanh");
}

cubit_norm_quantize_arguments norm_arguments() {
  cubit_norm_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = address(0x1000);
  arguments.residual = arguments.sum = address(0x2000);
  arguments.weight = address(0x3000);
  arguments.result.output = address(0x4000);
  arguments.result.scales = address<float>(0x5000);
  arguments.result.output_stride = arguments.input_stride = arguments.residual_stride = arguments.sum_stride = 128;
  arguments.rows = 3;
  arguments.columns = 128;
  arguments.epsilon = 1e-5f;
  return arguments;
}

TEST(NormLaunch, PassesStridesInBytes) {
  auto arguments = norm_arguments();
  const auto parameters = tests::parameters_of<NormQuantizeArguments>(
      tests::encode(norm_quantize::parse("norm_quantize:residual=true"), &arguments, tests::h200()));
  EXPECT_EQ(parameters.sum_stride, 256);
  EXPECT_EQ(parameters.result.stride, 128);
  arguments.residual = arguments.sum = nullptr;
  arguments.result.scales = nullptr;
  const auto plain = tests::parameters_of<NormQuantizeArguments>(
      tests::encode(norm_quantize::parse("norm_quantize:output=unquantised"), &arguments, tests::h200()));
  EXPECT_EQ(plain.sum_stride, 0);
  EXPECT_EQ(plain.result.stride, 256) << "16-bit values";
}

TEST(NormLaunch, RefusesByName) {
  using Given = cubit_norm_quantize_arguments;
  const auto refused = [](void (*change)(Given&), const std::string& sentence) {
    auto arguments = norm_arguments();
    change(arguments);
    const NormQuantize descriptor = norm_quantize::parse("norm_quantize:residual=true");
    expect_refused([&] { tests::encode(descriptor, &arguments, tests::h200()); }, sentence);
  };
  const std::string rule =
      ": it must be positive and a normal number of float; accepted: numbers from 2^-126 to 3.4e38";
  refused([](Given& a) { a.epsilon = -1; }, "epsilon = -1" + rule);
  refused([](Given& a) { a.epsilon = 0; }, "epsilon = 0" + rule);
  refused([](Given& a) { a.epsilon = 0x1p-127f; }, "epsilon = 5.877471754111438e-39" + rule);
  refused([](Given& a) { a.epsilon = std::numeric_limits<float>::infinity(); }, "epsilon = inf" + rule);
  refused([](Given& a) { a.reserved = 1; }, "reserved = 1: it must be 0");
  refused([](Given& a) { a.sum = nullptr; }, "sum = NULL: the tensor is needed");
  refused([](Given& a) { a.weight = address(0x3008); },
          "weight at 0x3008: the address is not a multiple of 16 bytes; align it");
  refused([](Given& a) { a.residual_stride = 256; },
          "sum = residual: rows would be overwritten before they are read, for the strides differ; accepted: "
          "sum_stride = 256 = residual_stride, or tensors that do not overlap");
  refused([](Given& a) { a.sum_stride = 64; },
          "sum_stride = 64: outputs would overwrite one another, for the dimensions within this stride span 128 "
          "elements; accepted: a magnitude of 128 and more");
  auto arguments = norm_arguments();
  tests::expect_refused_with([&] { tests::encode(NormQuantize{}, &arguments, tests::h200()); },
                             "the descriptor does not have residual=true; give NULL, or ask for residual=true");
}

TEST(GateLaunch, TakesHalvesOfOneTensor) {
  cubit_gate_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.gate = address(0x1000);
  arguments.up = address(0x1000 + 2 * 64);
  arguments.gate_stride = arguments.up_stride = 128;
  arguments.result.output = address(0x4000);
  arguments.result.scales = address<float>(0x5000);
  arguments.result.output_stride = arguments.columns = 64;
  arguments.rows = 3;
  const auto parameters =
      tests::parameters_of<GateQuantizeArguments>(tests::encode(GateQuantize{}, &arguments, tests::h200()));
  EXPECT_EQ(parameters.gate_stride, 256);
  EXPECT_EQ(parameters.up - parameters.gate, 128);
  arguments.up_stride = 100;
  expect_refused([&] { tests::encode(GateQuantize{}, &arguments, tests::h200()); },
                 "up stride 0 of 200 bytes: it is not a multiple of 16 bytes; align it, and pad its rows");
}

// Every value is 1 + 2. The mean square is 9, so that the result is the weight.
TEST(NormProblem, ComparesTheSumAndTheNorm) {
  std::vector<std::uint16_t> ones(16, 0x3c00);
  std::vector<std::uint16_t> twos(16, 0x4000);
  const std::vector<check::Tensor> tensors = {{"input", "F16", {1, 16}, {}, ones.data()},
                                              {"residual", "F16", {1, 16}, {}, twos.data()},
                                              {"weight", "F16", {16}, {}, twos.data()}};
  const char* const text = "norm_quantize:output=unquantised,residual=true";
  const auto problem = check::find_problems(text).problem(text, tensors, {{"epsilon", 0x1p-126}});
  std::vector<std::uint16_t> sums(16, 0x4200);    // 3
  std::vector<std::uint16_t> result(16, 0x4000);  // 3 / 3 * 2
  const void* got[] = {sums.data(), result.data()};
  EXPECT_LE(problem->compare(got).error, 1);
  result[5] = 0x4002;  // two units in the last place
  EXPECT_GT(problem->compare(got).error, 1);
  result[5] = 0x4000;
  sums[3] = 0x4201;
  EXPECT_EQ(problem->compare(got).error, std::numeric_limits<double>::infinity());
}

TEST(NormProblem, TakesEpsilonBesideMadeUpSizes) {
  const auto make = [](const check::Numbers& numbers) {
    return check::find_problems("norm_quantize").random("norm_quantize", numbers, 1);
  };
  const auto problem = make({{"rows", 2}, {"columns", 16}, {"epsilon", 0.25}});
  std::vector<void*> addresses(problem->inputs().size() + problem->outputs().size(), address(0x1000));
  const std::vector<std::byte> bytes = problem->arguments(addresses);
  cubit_norm_quantize_arguments arguments{};
  ASSERT_EQ(bytes.size(), sizeof arguments);
  std::memcpy(&arguments, bytes.data(), sizeof arguments);
  EXPECT_EQ(arguments.epsilon, 0.25f);
  expect_refused(
      [&] {
        make({{"epsilon", 1e-50}});
      },
      "epsilon = 1e-50: it must be positive and a normal number of float; accepted: numbers from 2^-126 to "
      "3.4e38");
}

TEST(GateProblem, ComparesCodesByHalfAStep) {
  std::vector<std::uint16_t> zeros(16, 0);
  std::vector<std::uint16_t> ones(16, 0x3c00);
  zeros[1] = 0x4900;  // 10, whose silu is 9.9995
  const std::vector<check::Tensor> tensors = {{"gate", "F16", {1, 16}, {}, zeros.data()},
                                              {"up", "F16", {1, 16}, {}, ones.data()}};
  const auto problem = check::find_problems("gate_quantize").problem("gate_quantize", tensors, {});
  std::vector<std::int8_t> codes(16, 0);
  codes[1] = 127;
  float scale = 10.f / 127;
  const void* got[] = {codes.data(), &scale};
  EXPECT_LE(problem->compare(got).error, 1);
  codes[1] = 126;
  EXPECT_GT(problem->compare(got).error, 1);
  codes[1] = 127;
  scale *= 1.01f;
  EXPECT_GT(problem->compare(got).error, 1);
}

/// One row of 16 fp16 products gate · up with the activation silu. All ups are 1.
class GateRow {
 public:
  explicit GateRow(std::vector<std::uint16_t> gates) : gates_(std::move(gates)) {}

  double error(const char* text, std::vector<const void*> got) {
    std::vector<check::Tensor> tensors = {{"gate", "F16", {1, 16}, {}, gates_.data()},
                                          {"up", "F16", {1, 16}, {}, ups_.data()}};
    if (gate_quantize::parse(text).reads_scale()) tensors.push_back({"scale", "F32", {1}, {}, &scale_});
    return check::find_problems(text).problem(text, tensors, {})->compare(got).error;
  }

 private:
  std::vector<std::uint16_t> gates_;
  std::vector<std::uint16_t> ups_ = std::vector<std::uint16_t>(16, 0x3c00);
  float scale_ = 1;
};

constexpr double kWrong = std::numeric_limits<double>::infinity();

TEST(GateProblem, AnInfiniteGateMakesTheScaleNan) {
  std::vector<std::uint16_t> gates(16, 0);
  gates[4] = 0x7c00;
  GateRow row(gates);
  std::vector<std::uint8_t> bytes(16, 0);
  float scale = std::numeric_limits<float>::quiet_NaN();
  std::int32_t zero_point = 0;
  for (const char* const text : {"gate_quantize", "gate_quantize:output=fp8_e4m3"})
    EXPECT_EQ(row.error(text, {bytes.data(), &scale}), 0) << text;
  EXPECT_EQ(row.error("gate_quantize:scheme=asymmetric", {bytes.data(), &scale, &zero_point}), 0);
  for (const float finite : {1.f, 516.f}) {
    scale = finite;
    for (const char* const text : {"gate_quantize", "gate_quantize:output=fp8_e4m3"})
      EXPECT_EQ(row.error(text, {bytes.data(), &scale}), kWrong) << text;
    EXPECT_EQ(row.error("gate_quantize:scheme=asymmetric", {bytes.data(), &scale, &zero_point}), kWrong);
  }
  scale = std::numeric_limits<float>::quiet_NaN();
  bytes[4] = 127;
  EXPECT_EQ(row.error("gate_quantize", {bytes.data(), &scale}), kWrong);
}

TEST(GateProblem, AnInfiniteGateStaysInfiniteOrSaturates) {
  std::vector<std::uint16_t> gates(16, 0);
  gates[4] = 0x7c00;
  GateRow row(gates);
  std::vector<std::uint16_t> values = gates;
  EXPECT_EQ(row.error("gate_quantize:output=unquantised", {values.data()}), 0);
  values[4] = 0x7bff;  // the largest finite number
  EXPECT_EQ(row.error("gate_quantize:output=unquantised", {values.data()}), kWrong);
  std::vector<std::uint8_t> bytes(16, 0);
  EXPECT_EQ(row.error("gate_quantize:scale=tensor", {bytes.data()}), kWrong);
  bytes[4] = 127;
  EXPECT_EQ(row.error("gate_quantize:scale=tensor", {bytes.data()}), 0);
  EXPECT_EQ(row.error("gate_quantize:scale=tensor,output=fp8_e4m3", {bytes.data()}), 0) << "0x7f is NaN";
  bytes[4] = 0x7e;  // 448
  EXPECT_EQ(row.error("gate_quantize:scale=tensor,output=fp8_e4m3", {bytes.data()}), kWrong);
}

TEST(GateProblem, AllowsHalfASubnormalStepOfE4m3AtZero) {
  GateRow row(std::vector<std::uint16_t>(16, 0));
  std::vector<std::uint8_t> bytes(16, 0);
  const char* const text = "gate_quantize:scale=tensor,output=fp8_e4m3";
  EXPECT_EQ(row.error(text, {bytes.data()}), 0);
  bytes[4] = 0x01;  // 2^-9
  EXPECT_GT(row.error(text, {bytes.data()}), 1);
}

TEST(SpecialRows, HaveARowWithAPositiveInfinityAlone) {
  constexpr int kRows = 8;
  constexpr int kColumns = 16;
  std::vector<std::uint16_t> values(kRows * kColumns, 0);
  check::quantisation::add_special_values(Element::fp16, Quantised::int8, kRows, kColumns,
                                          reinterpret_cast<char*>(values.data()));
  const auto last = values.end() - kColumns;
  EXPECT_EQ(std::count(last, values.end(), 0x7c00), 1);
  EXPECT_EQ(std::count(last, values.end(), 0), kColumns - 1);
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// ld.global.nc needs memory that nothing writes while the kernel runs. The sum may be written over the input or the
// residual, so that only the weight is loaded this way.
TEST(NormPlans, LoadRowsThatASumMayOverwriteWithPlainLoads) {
  std::string why;
  const auto compiler = tests::machine_nvrtc(why);
  if (compiler == nullptr) GTEST_SKIP() << "no compiler: " << why;
  codegen::KernelSource source = norm_quantize::make_source(norm_quantize::parse("norm_quantize:residual=true"),
                                                            codegen::find_architecture("sm_80"));
  source.code = codegen::Code::ptx;
  const std::vector<std::byte> bytes = compiler->compile(source).cubin;
  const std::string ptx(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr int kLoadsOfARow = 4 * 2;  // four vectors of 32 bytes
  EXPECT_EQ(occurrences(ptx, "ld.global.nc.v4.b32"), kLoadsOfARow);
  EXPECT_EQ(occurrences(ptx, "ld.global.v4.b32"), 2 * kLoadsOfARow);
}

// Compiles every thirteenth descriptor for one architecture, in rotation. tests/cover compiles and runs others.
TEST(NormAndGatePlans, CompileForEveryArchitectureWithoutSpills) {
  std::vector<std::string> texts;
  for (const NormQuantize& descriptor : all_norms()) texts.push_back(descriptor.text());
  for (const GateQuantize& descriptor : all_gates()) texts.push_back(descriptor.text());
  constexpr int kMostSaidSpills = 64;  // bytes, loads and stores together
  constexpr int kMostRegisters = 128;  // a block has up to 512 threads
  tests::expect_no_spills(tests::some_in_turn(texts, 13), kMostRegisters, kMostSaidSpills);
}

}  // namespace
}  // namespace cubit::ops
