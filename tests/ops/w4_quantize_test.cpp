// w4_quantize without running kernels: descriptor texts, refusals of launches and problems, and groups whose bits can
// be worked out by hand. The reference's weights are within half a step of the original weights. tests/cover checks
// what kernels write.
#include <cubit/w4_quantize.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check/random.hpp"
#include "check/w4_quantize/problem.hpp"
#include "check/w4a16_gemm/reference.hpp"
#include "ops/element/element.hpp"
#include "ops/w4_quantize/w4_quantize.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/kernels/quantisation/w4_quantize_arguments.h"
#include "tests/support/compiled.hpp"
#include "tests/support/descriptor_texts.hpp"
#include "tests/support/launches.hpp"
#include "tests/support/one_pass_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::expect_refused;

std::vector<W4Quantize> all_quantisers() {
  std::vector<W4Quantize> all;
  for (const W4Format format : {W4Format::gptq, W4Format::gptq_v2, W4Format::awq, W4Format::symmetric})
    for (const int group_size : {16, 32, 64, 128, 0})
      for (const W4Scheme scheme : {W4Scheme::asymmetric, W4Scheme::symmetric})
        for (const Element input : {Element::fp16, Element::bf16}) {
          if (format == W4Format::symmetric && scheme == W4Scheme::symmetric) continue;
          all.push_back({format, group_size, scheme, input});
        }
  return all;
}

TEST(QuantiseDescriptor, EveryValueHasOneTextThatParsesBackToIt) {
  tests::expect_one_text_each(all_quantisers(), w4_quantize::parse);
  EXPECT_EQ(W4Quantize{}.text(), "w4_quantize");
}

TEST(QuantiseDescriptor, RefusesByName) {
  expect_refused(
      [] { w4_quantize::parse("w4_quantize:group_size=8"); },
      "descriptor \"w4_quantize:group_size=8\": 8 is not a value of group_size; accepted: 16, 32, 64, 128, all");
  expect_refused([] { w4_quantize::parse("w4_quantize:input=fp32"); },
                 "descriptor \"w4_quantize:input=fp32\": fp32 is not a value of input; accepted: fp16, bf16");
  expect_refused(
      [] { w4_quantize::parse("w4_quantize:bits=8"); },
      "descriptor \"w4_quantize:bits=8\": w4_quantize has no field bits; accepted fields: format, group_size, "
      "scheme, input");
  for (const char* scheme : {"symmetric", "asymmetric"}) {
    const std::string text = std::string("w4_quantize:format=symmetric,scheme=") + scheme;
    expect_refused(
        [&] { w4_quantize::parse(text); },
        "descriptor \"" + text +
            "\": the field scheme does not apply to format=symmetric, whose zeros are all 8; leave scheme out "
            "or ask for format=gptq, gptq_v2 or awq");
  }
}

cubit_w4_quantize_arguments dense_arguments() {
  cubit_w4_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.weights = address(0x1000);
  arguments.qweight = address(0x2000);
  arguments.qzeros = address(0x3000);
  arguments.scales = address(0x4000);
  arguments.max_error = address<float>(0x5000);
  arguments.weight_stride = arguments.k = 384;
  arguments.n = 72;
  return arguments;
}

TEST(QuantiseLaunch, CoversTheWeightsByBlocks) {
  const auto arguments = dense_arguments();
  const Launch groups = tests::encode(W4Quantize{}, &arguments);
  EXPECT_EQ(groups.shape.grid[0], 3u) << "a block has 128 input features";
  EXPECT_EQ(groups.shape.grid[1], 2u) << "64 n's each";
  const Launch all = tests::encode(w4_quantize::parse("w4_quantize:group_size=all"), &arguments);
  EXPECT_EQ(all.shape.grid[0], 1u);
  EXPECT_EQ(all.shape.grid[1], 3u) << "32 n's each";
  const auto parameters = tests::parameters_of<W4QuantizeArguments>(groups);
  EXPECT_EQ(parameters.row_stride, 768) << "in bytes";
  EXPECT_EQ(parameters.rms_error, nullptr);
  auto nothing = dense_arguments();
  nothing.n = 0;
  nothing.weights = nullptr;
  EXPECT_TRUE(tests::encode(W4Quantize{}, &nothing).empty);
}

TEST(QuantiseLaunch, RefusesByName) {
  const auto refused = [](void (*change)(cubit_w4_quantize_arguments&), const char* text, const std::string& sentence) {
    const W4Quantize descriptor = w4_quantize::parse(text);
    auto arguments = dense_arguments();
    EXPECT_FALSE(tests::encode(descriptor, &arguments).empty);
    change(arguments);
    expect_refused([&] { tests::encode(descriptor, &arguments); }, sentence);
  };
  using Given = cubit_w4_quantize_arguments;
  refused([](Given& a) { a.n = 12; }, "w4_quantize", "n = 12: it must be a multiple of 8 from 0 to 2097120");
  refused([](Given& a) { a.n = 2097128; }, "w4_quantize", "n = 2097128: it must be a multiple of 8 from 0 to 2097120");
  refused([](Given& a) { a.k = 190; }, "w4_quantize", "k = 190: it must be a multiple of 8 from 8 to 2^30");
  refused([](Given& a) { a.k = 0; }, "w4_quantize:group_size=all", "k = 0: it must be a multiple of 8 from 8 to 2^30");
  refused([](Given& a) { a.weights = nullptr; }, "w4_quantize", "weights = NULL: the tensor is needed");
  refused([](Given& a) { a.qweight = nullptr; }, "w4_quantize", "qweight = NULL: the tensor is needed");
  refused([](Given& a) { a.qzeros = nullptr; }, "w4_quantize", "qzeros = NULL: the tensor is needed");
  refused([](Given& a) { a.scales = nullptr; }, "w4_quantize", "scales = NULL: the tensor is needed");
  refused([](Given& a) { a.weight_stride = 388; }, "w4_quantize",
          "weights stride 0 of 776 bytes: it is not a multiple of 16 bytes; align it, and pad its rows");
  refused([](Given& a) { a.qweight = address(0x2008); }, "w4_quantize",
          "qweight at 0x2008: the address is not a multiple of 16 bytes; align it");
  refused([](Given& a) { a.rms_error = address<float>(0x5004); }, "w4_quantize",
          "rms_error at 0x5004: the address is not a multiple of 16 bytes; align it");
  auto arguments = dense_arguments();
  arguments.qzeros = nullptr;
  EXPECT_FALSE(tests::encode(w4_quantize::parse("w4_quantize:format=symmetric"), &arguments).empty);
}

/// Eight rows of 32 weights. The first row begins with the given weights; all other weights are zeros.
std::vector<std::uint16_t> rows_of(const std::vector<float>& first) {
  std::vector<std::uint16_t> rows(8 * 32);
  for (std::size_t i = 0; i < first.size(); ++i) rows[i] = from_float(Element::fp16, first[i]);
  return rows;
}

int zero_of(const check::w4_quantize::Quantised& made) { return static_cast<int>(made.qzeros[0] & 15); }
int code_of(const check::w4_quantize::Quantised& made, int k) {
  return static_cast<int>(made.qweight[k / 8 * 8] >> (4 * (k % 8)) & 15);
}
double scale_of(const check::w4_quantize::Quantised& made) { return to_double(Element::fp16, made.scales[0]); }

check::w4_quantize::Quantised quantised(const char* text, const std::vector<float>& first) {
  return check::w4_quantize::quantise(w4_quantize::parse(text), rows_of(first).data(), 8, 32);
}

TEST(QuantiseReference, RoundsHalvesToEvenBetweenTheExtremes) {
  // Weights from -5 to 10 give steps of 1 and a zero of 5.
  const auto made = quantised("w4_quantize:format=gptq_v2,group_size=32", {-5, 10, 0.5f, 1.5f, -2.5f, 0.49f, -0.51f});
  EXPECT_EQ(scale_of(made), 1);
  EXPECT_EQ(zero_of(made), 5);
  const int expected[] = {0, 15, 5, 7, 3, 5, 4, 5};
  for (int k = 0; k < 8; ++k) EXPECT_EQ(code_of(made, k), expected[k]) << k;
  EXPECT_EQ(made.max_error[0], 0.5f);
  EXPECT_NEAR(made.rms_error[0], std::sqrt((3 * 0.25 + 2 * 0.49 * 0.49) / 32), 1e-3);
}

TEST(QuantiseReference, GptqStoresOneLessAndNeverAZeroOf0) {
  const auto made = quantised("w4_quantize:group_size=32", {-5, 10});
  EXPECT_EQ(zero_of(made), 4);
  // All weights are positive: 14 steps remain, and the largest weight is still represented.
  const auto above = quantised("w4_quantize:group_size=32", {0, 7, 14});
  EXPECT_EQ(scale_of(above), 1);
  EXPECT_EQ(zero_of(above), 0) << "means 1";
  EXPECT_EQ(code_of(above, 0), 1);
  EXPECT_EQ(code_of(above, 2), 15);
  EXPECT_EQ(above.max_error[0], 0);
  const auto others = quantised("w4_quantize:format=awq,group_size=32", {0, 7, 15});
  EXPECT_EQ(scale_of(others), 1);
  EXPECT_EQ(zero_of(others), 0);
}

TEST(QuantiseReference, SymmetricIsAboutEight) {
  for (const char* text :
       {"w4_quantize:format=symmetric,group_size=32", "w4_quantize:group_size=32,scheme=symmetric"}) {
    const auto made = quantised(text, {7.5f, -7.5f, 3, -0.5f});
    EXPECT_EQ(scale_of(made), 1);
    const int expected[] = {15, 0, 11, 8};  // 7.5 rounds to 8, and is clamped to 7
    for (int k = 0; k < 4; ++k) EXPECT_EQ(code_of(made, k), expected[k]) << text << k;
    EXPECT_EQ(made.max_error[0], 0.5f);
    if (!made.qzeros.empty()) {
      EXPECT_EQ(made.qzeros[0], 0x77777777u);
    }
  }
}

TEST(QuantiseReference, EmptyTinyAndLargeGroupsHaveScalesThatAreStored) {
  const auto zeros = quantised("w4_quantize:group_size=32", {});
  EXPECT_EQ(scale_of(zeros), 0x1p-24);
  EXPECT_EQ(code_of(zeros, 3), 1);
  EXPECT_EQ(zeros.max_error[0], 0);
  const auto tiny = quantised("w4_quantize:group_size=32", {0x1p-24f});
  EXPECT_EQ(scale_of(tiny), 0x1p-24);
  EXPECT_EQ(tiny.max_error[0], 0);
  std::vector<std::uint16_t> rows(8 * 32, from_float(Element::bf16, 3e38f));
  rows[1] = from_float(Element::bf16, -3e38f);
  const auto large =
      check::w4_quantize::quantise(w4_quantize::parse("w4_quantize:group_size=32,input=bf16"), rows.data(), 8, 32);
  EXPECT_EQ(scale_of(large), 65504);
  EXPECT_TRUE(std::isfinite(large.max_error[0]));
}

/// weight_at of w4a16_gemm, which shares no code with the quantiser, reads every weight to within half a step and the
/// rounding of the scale.
TEST(QuantiseReference, MeansTheWeightsInEveryFormat) {
  constexpr int kN = 24;
  constexpr int kK = 256;
  check::Random random(3);
  for (const W4Quantize& descriptor : all_quantisers()) {
    SCOPED_TRACE(descriptor.text());
    std::vector<std::uint16_t> weights(kN * kK);
    for (auto& weight : weights) weight = from_float(descriptor.input, static_cast<float>(0.02 * random.normal()));
    const auto made = check::w4_quantize::quantise(descriptor, weights.data(), kN, kK);
    W4a16Gemm gemm;
    gemm.format = descriptor.format;
    gemm.group_size = descriptor.group_size;
    const check::w4a16_gemm::PackedWeights packed{
        made.qweight.data(), made.qzeros.data(), made.scales.data(), nullptr, kN, kK};
    for (int n = 0; n < kN; ++n) {
      for (int k = 0; k < kK; ++k) {
        const std::size_t at = (descriptor.group_size == 0 ? 0 : k / descriptor.group_size) * kN + n;
        const double off = std::fabs(check::w4a16_gemm::weight_at(gemm, packed, k, n) -
                                     to_double(descriptor.input, weights[n * kK + k]));
        ASSERT_LE(off, made.max_error[at]) << k << " " << n;
        // The ends of a group may be off by one more step, if the rounded zero moves them out of range.
        ASSERT_LE(off, 1.01 * to_double(Element::fp16, made.scales[at]));
        ASSERT_LE(made.rms_error[at], 0.6 * to_double(Element::fp16, made.scales[at]));
      }
    }
  }
}

/// A problem with 8 output features of 32 input features.
struct Case {
  std::vector<std::uint16_t> weights = rows_of({-5, 10, 0.5f});
  std::vector<check::Tensor> tensors() { return {{"weights", "F16", {8, 32}, {}, weights.data()}}; }
};

/// A group with a NaN has the scale NaN, weights of 0 and the least zero. No neighbouring group changes, although
/// groups share words.
TEST(QuantiseReference, AGroupWithoutNumbersLeavesItsNeighboursAlone) {
  constexpr int kN = 8;
  constexpr int kK = 32;
  for (const W4Format format : {W4Format::gptq, W4Format::gptq_v2}) {
    const W4Quantize descriptor{.format = format, .group_size = kK};
    std::vector<std::uint16_t> weights(kN * kK);
    check::Random random(5);
    for (std::uint16_t& weight : weights) weight = from_float(Element::fp16, static_cast<float>(random.normal()));
    const auto good = check::w4_quantize::quantise(descriptor, weights.data(), kN, kK);
    std::fill_n(weights.begin(), kK, std::uint16_t{0x7e00});  // NaN
    const auto made = check::w4_quantize::quantise(descriptor, weights.data(), kN, kK);
    EXPECT_EQ(made.scales[0], 0x7e00);
    EXPECT_TRUE(std::isnan(made.max_error[0]) && std::isnan(made.rms_error[0]));
    for (int word = 0; word < kK / 8; ++word) {
      EXPECT_EQ(made.qweight[word * kN], 0u);
      for (int n = 1; n < kN; ++n) EXPECT_EQ(made.qweight[word * kN + n], good.qweight[word * kN + n]);
    }
    EXPECT_EQ(made.qzeros[0], good.qzeros[0] & ~15U) << "the least zero is stored as 0 or as itself, 0";
  }
}

TEST(QuantiseProblem, ComparesEveryNumber) {
  Case one;
  const std::string text = "w4_quantize:group_size=32";
  const auto problem = check::find_problems(text).problem(text, one.tensors(), {});
  ASSERT_EQ(problem->outputs().size(), 5u);
  EXPECT_EQ(problem->bytes_read(), 512u);
  EXPECT_EQ(problem->bytes_written(), 128u + 4 + 16 + 32 + 32);
  auto made = check::w4_quantize::quantise(w4_quantize::parse(text), one.weights.data(), 8, 32);
  std::vector<float> roots(made.rms_error.begin(), made.rms_error.end());
  const void* got[] = {made.qweight.data(), made.scales.data(), made.qzeros.data(), made.max_error.data(),
                       roots.data()};
  EXPECT_EQ(problem->compare(got).error, 0);
  made.qweight[9] ^= 0x10;
  made.scales[7] += 1;
  roots[0] *= 1.0001f;
  const auto comparison = problem->compare(got);
  EXPECT_EQ(comparison.error, 3);
  EXPECT_EQ(comparison.worst.substr(0, 13), "qweight[1, 1]");
  roots[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(problem->compare(got).error, 3);
  EXPECT_EQ(check::find_problems(text).problem(text, one.tensors(), {{"errors", 0}})->outputs().size(), 3u);
}

TEST(QuantiseProblem, RefusesByName) {
  const auto refused = [](void (*change)(std::vector<check::Tensor>&), const std::string& sentence) {
    Case one;
    auto tensors = one.tensors();
    change(tensors);
    expect_refused([&] { check::find_problems("w4_quantize").problem("w4_quantize:group_size=32", tensors, {}); },
                   sentence);
  };
  using Given = std::vector<check::Tensor>;
  refused([](Given& t) { t.clear(); },
          "tensors without weights: w4_quantize needs them; give weights [n, k], as a linear layer has them");
  refused([](Given& t) { t[0].name = "weight"; }, "tensor weight: w4_quantize has no such input; accepted: weights");
  refused([](Given& t) { t[0].type = "BF16"; }, "tensor weights of type BF16: it must be F16; or ask for input=bf16");
  refused([](Given& t) { t[0].shape = {256}; },
          "tensor weights [256]: it must have the dimensions [n, k], as a linear layer has them");
  refused([](Given& t) { t[0].shape = {4, 64}; }, "n = 4: it must be a multiple of 8 from 0 to 2097120");
  refused([](Given& t) { t[0].shape = {16, 12}; }, "k = 12: it must be a multiple of 8 from 8 to 2^30");
  expect_refused(
      [] {
        check::find_problems("w4_quantize").random("w4_quantize", {{"m", 2}}, 1);
      },
      "size m: w4_quantize has no such size; accepted: n, k, pattern, errors");
}

// Compiles every fifth descriptor for one architecture, in rotation. tests/cover compiles and runs other descriptors.
TEST(QuantisePlan, CompilesForEveryArchitectureWithoutSpills) {
  std::vector<std::string> texts;
  for (const W4Quantize& descriptor : all_quantisers()) texts.push_back(descriptor.text());
  constexpr int kMostRegisters =
      128;  // with more, 4 blocks of 128 threads, a quarter of an SM's threads, would not fit
  tests::expect_no_spills(tests::some_in_turn(texts, 5), kMostRegisters);
}

}  // namespace
}  // namespace cubit::ops
