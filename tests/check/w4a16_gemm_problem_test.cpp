// Tests of w4a16_gemm's reference and problems: packed tensors have the right meaning, the comparison finds wrong
// values and accepts right ones, and made-up data and bench cases have legal sizes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "check/gemm_problem.hpp"
#include "tests/ops/w4a16_gemm_case.hpp"

namespace cubit::check {
namespace {

using namespace ops::packed_gemm;

std::vector<W4a16Gemm> formats() {
  std::vector<W4a16Gemm> result;
  for (const W4Format format : {W4Format::gptq, W4Format::gptq_v2, W4Format::awq, W4Format::symmetric})
    for (const Element element : {Element::fp16, Element::bf16})
      for (const int bits : {4, 8})
        if (bits == 4 || format != W4Format::awq)
          result.push_back({.format = format, .bits = bits, .group_size = kGroup, .element = element});
  return result;
}

TEST(GemmReference, WeightsAreWhatWasPacked) {
  for (const W4a16Gemm& descriptor : formats()) {
    const Case one(descriptor);
    const w4a16_gemm::PackedWeights weights{
        one.packed.qweight.data(), one.packed.qzeros.data(), one.plain.scale[0], nullptr, kN, kK};
    for (int k = 0; k < kK; ++k)
      for (int n = 0; n < kN; ++n)
        EXPECT_EQ(w4a16_gemm::weight_at(descriptor, weights, k, n), one.plain.weight(descriptor, k, n))
            << k << ' ' << n;
  }
}

/// GPTQ stores zero - 1. A stored 15 means 16 and a stored 255 means 256; neither wraps around to 0.
TEST(GemmReference, ZerosOfGptqGoUpToOneMoreThanIsStored) {
  const std::uint32_t qweight[8] = {};
  const std::uint32_t qzeros[1] = {0xffffffffu};
  const std::uint16_t scales[8] = {0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00};
  const w4a16_gemm::PackedWeights weights{qweight, qzeros, scales, nullptr, 8, 8};
  EXPECT_EQ(w4a16_gemm::weight_at({.group_size = 0}, weights, 0, 3), -16);
  EXPECT_EQ(w4a16_gemm::weight_at({.format = W4Format::gptq_v2, .group_size = 0}, weights, 0, 3), -15);
  const std::uint32_t more_zeros[2] = {0xffffffffu, 0xffffffffu};
  const w4a16_gemm::PackedWeights bytes{qweight, more_zeros, scales, nullptr, 8, 8};
  EXPECT_EQ(w4a16_gemm::weight_at({.bits = 8, .group_size = 0}, bytes, 3, 7), -256);
  EXPECT_EQ(w4a16_gemm::weight_at({.format = W4Format::symmetric, .bits = 8, .group_size = 0}, bytes, 3, 7), -128);
}

TEST(GemmReference, DenseWeightsAreRowsOfAnOutputFeature) {
  for (const Element element : {Element::fp16, Element::bf16}) {
    std::vector<std::uint16_t> rows(16 * 24);
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i] = from_float(element, static_cast<float>(static_cast<double>(i) / 4));
    const w4a16_gemm::PackedWeights weights{.n = 16, .k = 24, .dense = rows.data()};
    EXPECT_EQ(w4a16_gemm::weight_at({.format = W4Format::dense, .element = element}, weights, 5, 3), (3 * 24 + 5) / 4.);
  }
}

TEST(GemmProblem, RowsOfAwqWordsChooseAnAlignmentThatTheDescriptorLeavesOut) {
  const auto fit = [](const std::string& text, std::int64_t words) {
    const std::vector<Tensor> tensors = {{"qweight", "I32", {128, words}, {}, nullptr}};
    return find_problems(text).fit(text, tensors, {});
  };
  const std::string awq = "w4a16_gemm:format=awq";
  EXPECT_EQ(fit(awq, 8), awq);
  EXPECT_EQ(fit(awq, 5), awq + ",alignment=4");
  EXPECT_EQ(fit(awq + ",alignment=4", 8), awq + ",alignment=4");
  EXPECT_EQ(fit(awq + ",function=silu_gate", 8), awq + ",function=silu_gate");
  EXPECT_EQ(fit(awq + ",function=silu_gate", 12), awq + ",function=silu_gate,alignment=4")
      << "the second half of a row begins at byte 24";
  EXPECT_EQ(fit(awq + ",tile_n=128", 5), awq + ",tile_n=128") << "no kernel family serves alignment=4";
  EXPECT_EQ(fit("w4a16_gemm", 5), "w4a16_gemm") << "rows of other formats are by k";
}

/// The rounded product, which every kernel should approximate.
std::vector<std::uint16_t> rounded_product(const Case& one, const W4a16Gemm& descriptor) {
  std::vector<std::uint16_t> output;
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      double sum = 0;
      for (int k = 0; k < kK; ++k)
        sum += to_double(descriptor.element, one.activations[m * kK + k]) * one.plain.weight(descriptor, k, n);
      output.push_back(from_float(descriptor.element, static_cast<float>(sum)));
    }
  }
  return output;
}

/// Outputs are about 2^-24, the smallest number of fp16. The rounded product is right, however large its relative error
/// is.
TEST(GemmProblem, SubnormalOutputsMayBeRoundedAndNoMore) {
  const W4a16Gemm descriptor{.group_size = kGroup};
  Case one(descriptor);
  for (std::uint16_t& x : one.activations) x &= 0x8001;  // 0 or 2^-24, of either sign
  for (auto& row : one.plain.scale)
    for (std::uint16_t& scale : row) scale = from_float(Element::fp16, 0x1p-5f);
  std::vector<std::uint16_t> output = rounded_product(one, descriptor);
  const auto problem = one.problem();
  const void* address = output.data();
  const auto good = problem->compare({&address, 1});
  EXPECT_LE(good.error, good.tolerance);
  std::uint16_t& wrong = output[kN + 3];
  wrong ^= 2;  // two steps away
  EXPECT_GT(problem->compare({&address, 1}).error, good.tolerance);
  wrong = 0x7fff;  // NaN
  const double nan_error = problem->compare({&address, 1}).error;
  EXPECT_FALSE(nan_error <= good.tolerance);
}

std::uint16_t bits_of(const W4a16Gemm& descriptor, double value) {
  return from_float(descriptor.element, static_cast<float>(value));
}

/// If a product is infinite or NaN, the output must be so too, and the rest of the row must be as exact as usual.
TEST(GemmProblem, InfinitiesAndNaNsAreRightWhereTheReferenceHasThem) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Element element : {Element::fp16, Element::bf16}) {
    const W4a16Gemm descriptor{.group_size = kGroup, .element = element};
    Case one(descriptor);
    one.activations[kK + 7] = bits_of(descriptor, kInfinity);  // row 1 is infinite, or NaN where the weight is zero
    one.plain.q[7][3] = one.plain.zero[0][3];
    one.packed = Packed(one.plain, descriptor);
    one.tensors[0].data = one.packed.qweight.data();
    one.tensors[3].data = one.packed.qzeros.data();
    std::vector<std::uint16_t> output = rounded_product(one, descriptor);
    ASSERT_TRUE(std::isnan(to_double(element, output[kN + 3])));
    ASSERT_TRUE(std::isinf(to_double(element, output[kN + 4])));
    const auto problem = one.problem();
    const void* address = output.data();
    const auto error = [&] { return problem->compare({&address, 1}).error; };
    const double tolerance = problem->compare({&address, 1}).tolerance;
    EXPECT_LE(error(), tolerance);
    const auto wrong = [&](int at, double value) {
      const std::uint16_t right = std::exchange(output[at], bits_of(descriptor, value));
      EXPECT_FALSE(error() <= tolerance) << at << " " << value;
      output[at] = right;
    };
    wrong(kN + 3, 1);
    wrong(kN + 3, kInfinity);
    wrong(kN + 4, std::numeric_limits<double>::quiet_NaN());
    wrong(kN + 4, -to_double(element, output[kN + 4]));
    wrong(kN + 4, 60000);
    wrong(5, kInfinity);  // in another row, which is finite
    EXPECT_LE(error(), tolerance);
  }
}

/// relu turns a negative infinity into a zero. The rest of the row must be as exact as usual.
TEST(GemmProblem, AFunctionHidesNoErrorBesideAnInfinity) {
  const W4a16Gemm descriptor{.group_size = kGroup, .function = GemmFunction::relu};
  Case one(descriptor);
  for (auto& row : one.plain.zero)
    for (int& zero : row) zero = 1;
  for (int n = 0; n < kN; ++n)
    one.plain.q[7][n] = n == 3 ? 0 : 2;  // the weights that multiply the infinity are -1 and 1
  one.packed = Packed(one.plain, descriptor);
  one.tensors[0].data = one.packed.qweight.data();
  one.tensors[3].data = one.packed.qzeros.data();
  one.activations[7] = bits_of(descriptor, -std::numeric_limits<double>::infinity());
  std::vector<std::uint16_t> output = rounded_product(one, descriptor);
  for (std::uint16_t& number : output)
    if ((number & 0x8000) != 0) number = 0;
  ASSERT_TRUE(std::isinf(to_double(Element::fp16, output[3])));
  const auto problem = one.problem();
  const void* address = output.data();
  const auto good = problem->compare({&address, 1});
  EXPECT_LE(good.error, good.tolerance);
  output[4] = bits_of(descriptor, 1);  // in the same row, where zero is right
  EXPECT_FALSE(problem->compare({&address, 1}).error <= good.tolerance);
}

/// Near the largest number of fp16 half a rounding step decides between that number and infinity. Both are right.
TEST(GemmProblem, AnOutputThatOverflowsIsInfinite) {
  const W4a16Gemm descriptor{.group_size = kGroup};
  for (const float scale : {1000.f, 2000.f, 4000.f, 8000.f}) {
    Case one(descriptor);
    for (auto& row : one.plain.scale)
      for (std::uint16_t& number : row) number = bits_of(descriptor, scale);
    const std::vector<std::uint16_t> output = rounded_product(one, descriptor);
    const auto problem = one.problem();
    const void* address = output.data();
    const auto good = problem->compare({&address, 1});
    EXPECT_LE(good.error, good.tolerance) << scale;
    std::vector<std::uint16_t> saturated = output;
    for (std::uint16_t& number : saturated)
      if ((number & 0x7fff) == 0x7c00) --number;  // the largest finite number
    ASSERT_NE(saturated, output);
    address = saturated.data();
    EXPECT_FALSE(problem->compare({&address, 1}).error <= good.tolerance) << scale;
  }
}

TEST(GemmProblem, AcceptsTheRoundedProductAndFindsOneWrongValue) {
  for (const W4a16Gemm& descriptor : formats()) {
    const Case one(descriptor);
    std::vector<std::uint16_t> output = rounded_product(one, descriptor);
    const auto problem = one.problem();
    const void* address = output.data();
    const auto good = problem->compare({&address, 1});
    EXPECT_GT(good.error, 0);  // the output's type rounds
    EXPECT_LE(good.error, good.tolerance);
    EXPECT_EQ(good.tolerance, descriptor.element == Element::fp16 ? 6e-4 : 4e-3);  // fewer than 64 columns
    output[2 * kN + 5] = 0x7fff;                                                   // NaN
    const auto bad = problem->compare({&address, 1});
    EXPECT_GT(bad.error, bad.tolerance);
    EXPECT_EQ(bad.worst, "row 2");
  }
}

// The expected numbers are values of PyTorch 2's functions at a few points.
TEST(GemmReference, FunctionsAreTheFrameworks) {
  EXPECT_EQ(apply_function(GemmFunction::none, -1.5), -1.5);
  EXPECT_EQ(apply_function(GemmFunction::relu, -1.5), 0);
  EXPECT_NEAR(apply_function(GemmFunction::silu, 1), 0.7310585786, 1e-9);
  EXPECT_NEAR(apply_function(GemmFunction::gelu, -1), -0.1586552539, 1e-9);
  EXPECT_NEAR(apply_function(GemmFunction::gelu_tanh, -1), -0.1588080094, 1e-9);
}

TEST(GemmProblem, CountsTheBytesOfAllInputs) {
  const auto problem = Case({.group_size = kGroup}).problem();
  EXPECT_EQ(problem->bytes_read(), std::size_t{kK * kN / 2 + 2 * kN * 2 + 2 * kN / 2 + kM * kK * 2});
  EXPECT_EQ(problem->bytes_written(), std::size_t{kM * kN * 2});
  EXPECT_EQ(problem->operations(), 2.0 * kM * kN * kK);
}

TEST(GemmProblem, CountsTheBytesOfDenseWeights) {
  const std::string text = "w4a16_gemm:format=dense,tile_m=64";
  const auto problem = find_problems(text).random(text, {{"m", 3}, {"n", 32}, {"k", 72}}, 1);
  EXPECT_EQ(problem->bytes_read(), 2u * (3 * 72 + 32 * 72));
  EXPECT_EQ(problem->bytes_written(), 2u * 3 * 32);
  EXPECT_EQ(problem->operations(), 2.0 * 3 * 32 * 72);
}

TEST(GemmProblem, MadeUpDataIsReproducibleAndOfNoRows) {
  const auto bytes_of = [](std::uint64_t seed) {
    std::string all;
    const std::string text = "w4a16_gemm:bias=true,residual=true,function=silu_gate";
    const auto problem = find_problems(text).random(text, {{"m", 3}, {"n", 32}, {"k", 128}}, seed);
    for (const Tensor& tensor : problem->inputs()) all.append(static_cast<const char*>(tensor.data), tensor.bytes());
    return all;
  };
  EXPECT_EQ(bytes_of(1), bytes_of(1));
  EXPECT_NE(bytes_of(1), bytes_of(2));
  const auto empty = find_problems("w4a16_gemm").random("w4a16_gemm", {{"m", 0}, {"n", 8}, {"k", 128}}, 1);
  EXPECT_EQ(empty->bytes_read(), 0u);
  const void* none = nullptr;
  EXPECT_EQ(empty->compare({&none, 1}).error, 0);
}

TEST(GemmProblem, RefusesSizesThatItDoesNotKnow) {
  for (const Numbers& sizes :
       {Numbers{{"batch", 1}}, Numbers{{"m", -1}}, Numbers{{"n", 12}}, Numbers{{"k", 100}}, Numbers{{"pattern", 6}},
        Numbers{{"m", 1 << 24}, {"n", 1 << 20}}, Numbers{{"k", std::numeric_limits<double>::quiet_NaN()}}}) {
    EXPECT_THROW(find_problems("w4a16_gemm").random("w4a16_gemm", sizes, 1), Failure);
  }
}

// Every case is canonical and has sizes that made-up data accepts. No target is faster than reading the bytes at
// 4.8 TB/s.
TEST(GemmBenchCases, CanBeMeasuredAndReached) {
  const auto cases = find_problems("w4a16_gemm").bench_cases();
  EXPECT_GE(cases.size(), 30u);
  for (const BenchCase& one : cases) {
    EXPECT_EQ(find_operator("w4a16_gemm").canonical(one.descriptor), one.descriptor);
    const double n = one.sizes.at("n");
    const double k = one.sizes.at("k");
    w4a16_gemm::check_sizes(w4a16_gemm::parse(one.descriptor), static_cast<int>(one.sizes.at("m")), static_cast<int>(n),
                            static_cast<int>(k));
    if (one.target_microseconds > 0) {
      EXPECT_GE(one.target_microseconds, n * k * (0.5 + 2.5 / 128) / 4.8e6) << one.name;
    }
  }
}

}  // namespace
}  // namespace cubit::check
