// w4a16_gemm's reference and problems: tensors packed here, by the rules of the formats and by nothing of cubit's, mean
// what they should; named tensors are checked with one clear sentence; the comparison finds what is wrong and only
// that.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "ops/element/element.hpp"
#include "ops/random.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

constexpr int kK = 64;
constexpr int kN = 24;
constexpr int kGroup = 32;
constexpr int kM = 3;

/// Quantised weights as numbers, unpacked.
struct Plain {
  int q[kK][kN];
  int zero[kK / kGroup][kN];  ///< 1 … 15, of bytes 1 … 255
  std::uint16_t scale[kK / kGroup][kN];

  explicit Plain(std::uint64_t seed, int bits = 4) {
    Random random(seed);
    const unsigned numbers = 1u << bits;
    for (auto& row : q)
      for (int& value : row) value = static_cast<int>(random.bits() % numbers);
    for (auto& row : zero)
      for (int& value : row) value = 1 + static_cast<int>(random.bits() % (numbers - 1));
    for (auto& row : scale)
      for (auto& value : row) value = from_float(Element::fp16, static_cast<float>(random.uniform()));
  }
  double weight(const W4a16Gemm& descriptor, int k, int n) const {
    const int middle = descriptor.bits == 8 ? 128 : 8;
    const int z = descriptor.format == W4Format::symmetric ? middle : zero[k / kGroup][n];
    return (q[k][n] - z) * to_double(Element::fp16, scale[k / kGroup][n]);
  }
};

/// The published layouts: GPTQ packs 8 k's of a column into a word, AutoAWQ 8 columns of a k in an order of its own.
struct Packed {
  std::vector<std::uint32_t> qweight;
  std::vector<std::uint32_t> qzeros;

  Packed(const Plain& plain, const W4a16Gemm& descriptor) {
    descriptor.bits == 8 ? pack_bytes(plain, descriptor.format) : pack_nibbles(plain, descriptor.format);
  }

 private:
  void pack_nibbles(const Plain& plain, W4Format format) {
    static constexpr int kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    if (format == W4Format::awq) {
      qweight.resize(kK * kN / 8);
      for (int k = 0; k < kK; ++k)
        for (int i = 0; i < kN / 8; ++i)
          for (int j = 0; j < 8; ++j) qweight[k * (kN / 8) + i] |= unsigned(plain.q[k][8 * i + kOrder[j]]) << (4 * j);
    } else {
      qweight.resize(kK / 8 * kN);
      for (int i = 0; i < kK / 8; ++i)
        for (int n = 0; n < kN; ++n)
          for (int j = 0; j < 8; ++j) qweight[i * kN + n] |= unsigned(plain.q[8 * i + j][n]) << (4 * j);
    }
    if (format == W4Format::symmetric) return;
    qzeros.resize(kK / kGroup * kN / 8);
    for (int g = 0; g < kK / kGroup; ++g)
      for (int i = 0; i < kN / 8; ++i)
        for (int j = 0; j < 8; ++j) {
          const int column = 8 * i + (format == W4Format::awq ? kOrder[j] : j);
          const int stored = plain.zero[g][column] - (format == W4Format::gptq ? 1 : 0);
          qzeros[g * (kN / 8) + i] |= unsigned(stored) << (4 * j);
        }
  }

  /// GPTQ of 8 bits: 4 k's of a column into a word, 4 columns' zeros.
  void pack_bytes(const Plain& plain, W4Format format) {
    for (int i = 0; i < kK / 4; ++i)
      for (int n = 0; n < kN; ++n)
        qweight.push_back(word(plain.q[4 * i][n], plain.q[4 * i + 1][n], plain.q[4 * i + 2][n], plain.q[4 * i + 3][n]));
    if (format == W4Format::symmetric) return;
    const int less = format == W4Format::gptq ? 1 : 0;
    for (const auto& row : plain.zero)
      for (int n = 0; n < kN; n += 4)
        qzeros.push_back(word(row[n] - less, row[n + 1] - less, row[n + 2] - less, row[n + 3] - less));
  }
  static std::uint32_t word(int a, int b, int c, int d) {
    return unsigned(a) | unsigned(b) << 8 | unsigned(c) << 16 | unsigned(d) << 24;
  }
};

/// A case by named tensors.
struct Case {
  explicit Case(const W4a16Gemm& descriptor)
      : plain(7, descriptor.bits), packed(plain, descriptor), text(descriptor.text()) {
    Random random(3);
    for (std::uint16_t& x : activations) x = from_float(descriptor.element, static_cast<float>(random.normal()));
    const bool by_n = descriptor.format == W4Format::awq;
    const int in_word = descriptor.bits == 8 ? 4 : 8;
    tensors = {{"qweight", "I32", {by_n ? kK : kK / in_word, by_n ? kN / 8 : kN}, {}, packed.qweight.data()},
               {"scales", "F16", {kK / kGroup, kN}, {}, plain.scale},
               {"activations", descriptor.element == Element::fp16 ? "F16" : "BF16", {kM, kK}, {}, activations.data()}};
    if (!packed.qzeros.empty())
      tensors.push_back({"qzeros", "I32", {kK / kGroup, kN / in_word}, {}, packed.qzeros.data()});
  }
  std::unique_ptr<Problem> problem() const { return find_operator(text).problem(text, tensors, numbers); }

  Plain plain;
  Packed packed;
  std::vector<std::uint16_t> activations = std::vector<std::uint16_t>(kM * kK);
  std::vector<Tensor> tensors;
  Numbers numbers;
  std::string text;
};

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

/// GPTQ stores zero - 1: a stored 15 means 16, a stored 255 means 256, and neither wraps.
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

/// What every kernel should come near.
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

/// Outputs of some 2^-24, the smallest numbers of fp16: the rounded product is right, however far off that is.
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

/// Where a product is infinite or no number, so must the output be, and the rest of the row as exact as ever.
TEST(GemmProblem, InfinitiesAndNaNsAreRightWhereTheReferenceHasThem) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Element element : {Element::fp16, Element::bf16}) {
    const W4a16Gemm descriptor{.group_size = kGroup, .element = element};
    Case one(descriptor);
    one.activations[kK + 7] = bits_of(descriptor, kInfinity);  // row 1: infinite, or none where the weight is zero
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
    wrong(5, kInfinity);  // of another row, which is finite
    EXPECT_LE(error(), tolerance);
  }
}

/// relu makes an infinity a zero, beside which the row must be as exact as ever.
TEST(GemmProblem, AFunctionHidesNoErrorBesideAnInfinity) {
  const W4a16Gemm descriptor{.group_size = kGroup, .function = GemmFunction::relu};
  Case one(descriptor);
  for (auto& row : one.plain.zero)
    for (int& zero : row) zero = 1;
  for (int n = 0; n < kN; ++n) one.plain.q[7][n] = n == 3 ? 0 : 2;  // of the infinity: -1 and 1
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
  output[4] = bits_of(descriptor, 1);  // of the same row, where zero is right
  EXPECT_FALSE(problem->compare({&address, 1}).error <= good.tolerance);
}

/// About the largest number of fp16, where half a step decides, both are right.
TEST(GemmProblem, AnOutputThatOverflowsIsInfinite) {
  const W4a16Gemm descriptor{.group_size = kGroup};
  for (const float scale : {500.f, 1000.f, 2000.f, 4000.f}) {
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
      if ((number & 0x7fff) == 0x7c00) --number;  // to the largest finite one
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

// Values of PyTorch 2's functions at a few points.
TEST(GemmReference, FunctionsAreTheFrameworks) {
  using w4a16_gemm::apply_function;
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

TEST(GemmProblem, MadeUpDataIsReproducibleAndOfNoRows) {
  const auto bytes_of = [](std::uint64_t seed) {
    std::string all;
    const std::string text = "w4a16_gemm:bias=true,residual=true,function=silu_gate";
    const auto problem = find_operator(text).random(text, {{"m", 3}, {"n", 32}, {"k", 128}}, seed);
    for (const Tensor& tensor : problem->inputs()) all.append(static_cast<const char*>(tensor.data), tensor.bytes());
    return all;
  };
  EXPECT_EQ(bytes_of(1), bytes_of(1));
  EXPECT_NE(bytes_of(1), bytes_of(2));
  const auto empty = find_operator("w4a16_gemm").random("w4a16_gemm", {{"m", 0}, {"n", 8}, {"k", 128}}, 1);
  EXPECT_EQ(empty->bytes_read(), 0u);
  const void* none = nullptr;
  EXPECT_EQ(empty->compare({&none, 1}).error, 0);
}

struct BadCase {
  const char* sentence;
  void (*change)(Case&);
};

class RefusedGemmProblem : public ::testing::TestWithParam<BadCase> {};

TEST_P(RefusedGemmProblem, NamesTheRule) {
  Case one({.group_size = kGroup});
  GetParam().change(one);
  tests::expect_refused_with([&] { one.problem(); }, GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedGemmProblem,
    ::testing::Values(
        BadCase{"tensors without qzeros: w4a16_gemm:group_size=32 needs activations, qweight, scales, qzeros",
                [](Case& c) { c.tensors.pop_back(); }},
        BadCase{"tensor mask: w4a16_gemm:group_size=32 has no such input; accepted: activations, qweight",
                [](Case& c) { c.tensors[3].name = "mask"; }},
        BadCase{"tensor qweight of type U8: the descriptor", [](Case& c) { c.tensors[0].type = "U8"; }},
        BadCase{"tensor qweight [64, 3]: w4a16_gemm:group_size=32 with m = 3, n = 24 and k = 64 wants [8, 24]",
                [](Case& c) {
                  c.tensors[0].shape = {64, 3};
                }},
        BadCase{"tensor weights: w4a16_gemm:group_size=32 has no such input; quantise them first, by w4_quantize",
                [](Case& c) { c.tensors[3].name = "weights"; }},
        BadCase{"tensor bias: w4a16_gemm:group_size=32 has no such input; ask for bias=true, or leave it out",
                [](Case& c) { c.tensors[3].name = "bias"; }},
        BadCase{"tensor scales [1, 24]: w4a16_gemm:group_size=32 with k = 64 has other groups; ask for group_size=all",
                [](Case& c) { c.tensors[1].shape[0] = 1; }},
        BadCase{"tensor scales [2, 24]: w4a16_gemm:group_size=32 with k = 128 has other groups; ask for group_size=64",
                [](Case& c) {
                  c.tensors[2].shape = {1, 128};
                }},
        BadCase{
            "tensor scales [5, 8]: w4a16_gemm:group_size=32 with k = 64 has other groups; accepted: groups of 32, 64",
            [](Case& c) {
              c.tensors[1].shape = {5, 8};
            }},
        BadCase{
            "tensor scales [0, 24]: w4a16_gemm:group_size=32 with k = 64 has other groups; accepted: groups of 32, 64",
            [](Case& c) { c.tensors[1].shape[0] = 0; }},
        BadCase{"n = 20: it must be a multiple of 8", [](Case& c) { c.tensors[1].shape[1] = 20; }},
        BadCase{"tensor activations [64]: it must have the dimensions [m, k]",
                [](Case& c) { c.tensors[2].shape = {64}; }},
        BadCase{
            "tensor activations of type BF16: the descriptor w4a16_gemm:group_size=32 wants F16; ask for element=bf16",
            [](Case& c) { c.tensors[2].type = "BF16"; }},
        BadCase{"number speed: w4a16_gemm has no such launch argument; accepted: decomposition, splits",
                [](Case& c) { c.numbers["speed"] = 1; }},
        BadCase{"splits = 0.5: it is not a number that is accepted; accepted: whole numbers from 0 to 256",
                [](Case& c) { c.numbers["splits"] = 0.5; }},
        BadCase{"splits = 10000000000: it is not a number that is accepted; accepted: whole numbers from 0 to 256",
                [](Case& c) { c.numbers["splits"] = 1e10; }},
        BadCase{"decomposition = 5: it is not a number that is accepted; accepted: whole numbers from 0 to 4",
                [](Case& c) { c.numbers["decomposition"] = 5; }}));

std::string refusal_of(const Case& one) {
  return tests::refusal_of([&] { one.problem(); });
}

TEST(GemmProblem, TakesAnActivationOrderOnlyWhereItIsAskedFor) {
  Case plain({.group_size = kGroup});
  Case ordered({.group_size = kGroup, .activation_order = true});
  EXPECT_EQ(refusal_of(ordered).substr(0, 61), "tensors without g_idx: w4a16_gemm:group_size=32,activation_or");
  std::vector<std::int32_t> groups(kK);
  for (int k = 0; k < kK; ++k) groups[k] = k / kGroup;
  for (Case* one : {&plain, &ordered}) one->tensors.push_back({"g_idx", "I32", {kK}, {}, groups.data()});
  EXPECT_EQ(plain.problem()->inputs().size(), 4u);
  EXPECT_EQ(ordered.problem()->inputs().size(), 5u);
  std::swap(groups[3], groups[40]);
  EXPECT_EQ(refusal_of(ordered), "accepted");
  EXPECT_EQ(refusal_of(plain),
            "g_idx[3] = 1: w4a16_gemm:group_size=32 takes no activation order; ask for activation_order=true, or give "
            "g_idx[k] = k / group_size or none");
  groups[5] = 2;  // of which asking for an activation order would not help
  for (const Case* one : {&plain, &ordered})
    EXPECT_EQ(refusal_of(*one), "g_idx[5] = 2: there are 2 groups; accepted: 0 to 1");
  ordered.tensors.back().shape = {kK / 2};
  EXPECT_EQ(refusal_of(ordered), "tensor g_idx [32] of type I32: it must be I32 [64]");
}

/// A format without zeros, of which some packers store them nevertheless.
TEST(GemmProblem, ZerosOfSymmetricWeightsAreAnotherFormats) {
  Case one({.format = W4Format::symmetric, .group_size = kGroup});
  const std::vector<std::uint32_t> zeros(kK / kGroup * kN / 8, 0x77777777);
  one.tensors.push_back({"qzeros", "I32", {kK / kGroup, kN / 8}, {}, const_cast<std::uint32_t*>(zeros.data())});
  EXPECT_EQ(
      refusal_of(one),
      "tensor qzeros: w4a16_gemm:format=symmetric,group_size=32 has no such input; ask for format=gptq, gptq_v2 or "
      "awq, as its packer did, or leave it out where every zero is the middle");
}

/// Values of bf16 that fp16 has too; no weight changes unseen.
TEST(GemmProblem, ScalesOfBf16AreTakenWhereTheyStayWhatTheyAre) {
  Case one({.group_size = kGroup});
  for (auto& row : one.plain.scale)
    for (std::uint16_t& scale : row)
      scale = from_float(Element::fp16, static_cast<float>(to_double(Element::bf16, from_float(Element::bf16, 0.01f))));
  const auto expected = one.problem();
  std::vector<std::uint16_t> scales(kK / kGroup * kN, from_float(Element::bf16, 0.01f));
  one.tensors[1].type = "BF16";
  one.tensors[1].data = scales.data();
  const auto problem = one.problem();
  EXPECT_EQ(problem->inputs()[2].type, "F16");
  EXPECT_EQ(std::memcmp(problem->inputs()[2].data, expected->inputs()[2].data, problem->inputs()[2].bytes()), 0);
  for (const float kept : {0x1p-17f, 0x1.fep-17f, 65280.f, 0.f, -3.f}) {
    scales[kN + 5] = from_float(Element::bf16, kept);
    EXPECT_EQ(refusal_of(one), "accepted") << kept;
  }
  for (const float lost : {0x1.02p-18f, 65536.f, 1e30f, 1e-30f}) {
    scales[kN + 5] = from_float(Element::bf16, lost);
    EXPECT_EQ(refusal_of(one).substr(0, 15), "scales[1, 5] = ") << lost;
    EXPECT_NE(refusal_of(one).find("of type BF16: fp16, which the kernel reads, has no such number; accepted: F16, or"),
              std::string::npos);
  }
}

TEST(GemmProblem, ScalesAreFinite) {
  Case one({.group_size = kGroup});
  one.plain.scale[1][5] = 0x7c00;
  EXPECT_EQ(refusal_of(one), "scales[1, 5] = inf: no weight of its group would be a number; accepted: finite scales");
  std::vector<std::uint16_t> scales(kK / kGroup * kN, 0x7fc0);  // NaNs of bf16
  one.tensors[1].type = "BF16";
  one.tensors[1].data = scales.data();
  EXPECT_EQ(refusal_of(one), "scales[0, 0] = nan: no weight of its group would be a number; accepted: finite scales");
  std::vector<float> floats(kK / kGroup * kN, 1);
  one.tensors[1].type = "F32";
  one.tensors[1].data = floats.data();
  EXPECT_EQ(refusal_of(one),
            "tensor scales of type F32: the descriptor w4a16_gemm:group_size=32 wants F16; accepted: F16, or BF16 of "
            "numbers that F16 has");
}

TEST(GemmProblem, ABiasOfAnotherTypeIsRounded) {
  Case one({.group_size = kGroup, .element = Element::bf16, .bias = true});
  std::vector<float> bias(kN, 0.3f);
  one.tensors.push_back({"bias", "F32", {kN}, {}, bias.data()});
  const auto problem = one.problem();
  const Tensor& taken = problem->inputs().back();
  EXPECT_EQ(taken.name + " " + taken.type, "bias BF16");
  EXPECT_EQ(static_cast<const std::uint16_t*>(taken.data)[3], from_float(Element::bf16, 0.3f));
  Case half({.group_size = kGroup, .bias = true});
  std::vector<std::uint16_t> large(kN, from_float(Element::bf16, 1e5f));
  half.tensors.push_back({"bias", "BF16", {kN}, {}, large.data()});
  EXPECT_EQ(
      refusal_of(half),
      "bias[0] = 99840 of type BF16: it is too large for F16, to which it would be rounded; ask for element=bf16");
  half.tensors.back().type = "I16";
  EXPECT_EQ(refusal_of(half), "tensor bias [24] of type I16: it must be F16, BF16 or F32 [24]");
}

/// Advice is what would be accepted.
TEST(GemmProblem, AdvisesWhatTheDescriptorCanBe) {
  Case earlier({.group_size = kGroup, .family = Family::sm75});
  earlier.tensors[2].type = "BF16";
  EXPECT_NE(refusal_of(earlier).find("; ask for element=bf16, and leave tile_n and family out"), std::string::npos);
  std::vector<float> bias(kN, 3.4e38f);
  for (const Element element : {Element::fp16, Element::bf16}) {
    Case one({.group_size = kGroup, .element = element, .bias = true});
    one.tensors.push_back({"bias", "F32", {kN}, {}, bias.data()});
    EXPECT_NE(refusal_of(one).find("rounded; give a smaller one"), std::string::npos) << refusal_of(one);
    one.tensors.back().shape = {kN - 1};
    EXPECT_EQ(refusal_of(one), "tensor bias [23] of type F32: it must be F16, BF16 or F32 [24]");
  }
  Case bytes({.format = W4Format::symmetric, .bits = 8, .group_size = kGroup});
  bytes.tensors[1].name = "qzeros";
  EXPECT_NE(refusal_of(bytes).find("; ask for format=gptq or gptq_v2, as"), std::string::npos);
  Case boxes({.group_size = kGroup, .family = Family::sm90});
  std::vector<std::int32_t> groups(kK, 1);
  boxes.tensors.push_back({"g_idx", "I32", {kK}, {}, groups.data()});
  EXPECT_NE(refusal_of(boxes).find("; ask for activation_order=true, and leave tile_n and family out, or give"),
            std::string::npos);
  Case few({.group_size = 64});
  few.tensors[1].shape = {1, kN};
  few.tensors[2].shape = {1, 96};
  EXPECT_EQ(refusal_of(few),
            "tensor scales [1, 24]: w4a16_gemm:group_size=64 with k = 96 has other groups; ask for group_size=all");
}

/// It says nothing new, but it must be one: of every k a group.
TEST(GemmProblem, AGroupIndexWithoutActivationOrderHasAnEntryForEachK) {
  Case one({.group_size = kGroup});
  std::vector<std::int32_t> groups(2 * kK);
  for (int k = 0; k < 2 * kK; ++k) groups[k] = k / kGroup;
  one.tensors.push_back({"g_idx", "I32", {kK}, {}, groups.data()});
  EXPECT_EQ(refusal_of(one), "accepted");
  const auto refused = [&](std::string_view type, std::vector<std::int64_t> shape, const std::string& given) {
    one.tensors.back().type = type;
    one.tensors.back().shape = std::move(shape);
    EXPECT_EQ(refusal_of(one), "tensor g_idx " + given + ": it must be I32 [64]");
  };
  refused("I32", {kK / 2}, "[32] of type I32");
  refused("I32", {2 * kK}, "[128] of type I32");
  refused("I32", {0}, "[0] of type I32");
  refused("I32", {}, "[] of type I32");
  refused("I32", {1, kK}, "[1, 64] of type I32");
  refused("I64", {kK}, "[64] of type I64");
}

/// Files have tensors at any byte.
TEST(GemmProblem, AGroupIndexMayLieAtAnyAddress) {
  Case one({.group_size = kGroup});
  std::vector<char> bytes(4 * kK + 1);
  for (int k = 0; k < kK; ++k) {
    const std::int32_t group = k / kGroup;
    std::memcpy(bytes.data() + 1 + 4 * k, &group, 4);
  }
  one.tensors.push_back({"g_idx", "I32", {kK}, {}, bytes.data() + 1});
  EXPECT_EQ(refusal_of(one), "accepted");
  bytes[1 + 4 * 40] = 0;
  EXPECT_EQ(refusal_of(one).substr(0, 13), "g_idx[40] = 0");
}

TEST(GemmProblem, RefusesSizesThatItDoesNotKnow) {
  for (const Numbers& sizes :
       {Numbers{{"batch", 1}}, Numbers{{"m", -1}}, Numbers{{"n", 12}}, Numbers{{"k", 100}}, Numbers{{"pattern", 6}},
        Numbers{{"m", 1 << 24}, {"n", 1 << 20}}, Numbers{{"k", std::numeric_limits<double>::quiet_NaN()}}}) {
    EXPECT_THROW(find_operator("w4a16_gemm").random("w4a16_gemm", sizes, 1), Failure);
  }
}

// Every case is canonical and of sizes that made-up data takes, and no target is below the bytes at 4.8 TB/s.
TEST(GemmBenchCases, CanBeMeasuredAndReached) {
  const auto cases = find_operator("w4a16_gemm").bench_cases();
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
}  // namespace cubit::ops
