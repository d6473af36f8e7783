// Tests of <cubit/w4_checkpoint.hpp>: every conversion keeps the weights that weight_at of w4a16_gemm reads, and a
// conversion back gives the same bits, on any number of threads. A zero that a format cannot store is refused by name.
#include <gtest/gtest.h>

#include <cubit/w4_checkpoint.hpp>

#include "check/random.hpp"
#include "check/w4a16_gemm/problem.hpp"
#include "ops/element/element.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "tests/support/refusals.hpp"

namespace cubit {
namespace {

constexpr W4Format kFormats[] = {W4Format::gptq, W4Format::gptq_v2, W4Format::awq, W4Format::symmetric};
constexpr W4LayerSizes kSizes = {40, 96, 3};

struct Layer {
  W4Format format;
  std::vector<std::uint32_t> qweight = std::vector<std::uint32_t>(kSizes.qweight_words());
  std::vector<std::uint32_t> qzeros;

  explicit Layer(W4Format of)
      : format(of), qzeros(std::vector<std::uint32_t>(stores_zeros(of) ? kSizes.qzeros_words() : 0)) {}

  double weight(int k, int n) const {
    static const std::vector<std::uint16_t> ones(kSizes.groups * kSizes.n, ops::from_float(Element::fp16, 1));
    W4a16Gemm descriptor;
    descriptor.format = format;
    descriptor.group_size = 32;
    const check::w4a16_gemm::PackedWeights packed{
        qweight.data(), qzeros.data(), ones.data(), nullptr, static_cast<int>(kSizes.n), static_cast<int>(kSizes.k)};
    return check::w4a16_gemm::weight_at(descriptor, packed, k, n);
  }
  Layer converted(W4Format to, int threads) const {
    Layer result(to);
    convert_qweight(format, to, kSizes, qweight, result.qweight, threads);
    convert_qzeros(format, to, kSizes, qzeros, result.qzeros, threads);
    return result;
  }
};

/// A layer of random weights. If `eights`, all zeros are 8; otherwise every format except symmetric can store the
/// zeros.
Layer random_layer(W4Format format, bool eights) {
  check::Random random(7);
  Layer layer(format);
  for (auto& word : layer.qweight) word = static_cast<std::uint32_t>(random.bits());
  for (auto& word : layer.qzeros) {
    for (int i = 0; i < 8; ++i) {
      const auto zero = static_cast<std::uint32_t>(eights ? 8 : 1 + random.bits() % 15);
      word |= (zero - (format == W4Format::gptq ? 1 : 0)) << (4 * i);
    }
  }
  return layer;
}

TEST(W4Conversion, KeepsEveryWeightAndComesBackAsItWas) {
  for (const W4Format from : kFormats) {
    for (const W4Format to : kFormats) {
      SCOPED_TRACE(std::string(text_of(from)) + " to " + text_of(to));
      const Layer layer = random_layer(from, to == W4Format::symmetric);
      const Layer other = layer.converted(to, 1);
      for (int k = 0; k < kSizes.k; ++k)
        for (int n = 0; n < kSizes.n; ++n) ASSERT_EQ(other.weight(k, n), layer.weight(k, n)) << k << " " << n;
      for (const int threads : {2, 5, 64}) {
        EXPECT_EQ(layer.converted(to, threads).qweight, other.qweight);
        EXPECT_EQ(layer.converted(to, threads).qzeros, other.qzeros);
      }
      EXPECT_EQ(other.converted(from, 3).qweight, layer.qweight);
      EXPECT_EQ(other.converted(from, 3).qzeros, layer.qzeros);
    }
  }
}

using tests::expect_refused;

/// Three formats have weights of 8 bits, all in the same layout; only their zeros are stored differently.
TEST(W4Conversion, OfBytesKeepsEveryWeight) {
  constexpr W4LayerSizes kBytes = {8, 64, 2, 8};
  std::vector<std::uint32_t> qweight(kBytes.qweight_words());
  ASSERT_EQ(qweight.size(), std::size_t{64 / 4 * 8});
  check::Random random(3);
  for (auto& word : qweight) word = static_cast<std::uint32_t>(random.bits());
  const std::vector<std::uint32_t> gptq = {0x00017ffe, 0x7f7f7f7f, 0x0a0b0c0d, 0x7f7f7f7f};
  const std::vector<std::uint32_t> gptq_v2 = {0x010280ff, 0x80808080, 0x0b0c0d0e, 0x80808080};
  std::vector<std::uint32_t> words(qweight.size());
  convert_qweight(W4Format::gptq, W4Format::symmetric, kBytes, qweight, words, 2);
  EXPECT_EQ(words, qweight);
  std::vector<std::uint32_t> zeros(kBytes.qzeros_words());
  convert_qzeros(W4Format::gptq, W4Format::gptq_v2, kBytes, gptq, zeros, 2);
  EXPECT_EQ(zeros, gptq_v2);
  convert_qzeros(W4Format::gptq_v2, W4Format::gptq, kBytes, gptq_v2, zeros, 1);
  EXPECT_EQ(zeros, gptq);
  convert_qzeros(W4Format::symmetric, W4Format::gptq, kBytes, {}, zeros, 1);
  EXPECT_EQ(zeros, std::vector<std::uint32_t>(4, 0x7f7f7f7f));
  expect_refused([&] { convert_qzeros(W4Format::gptq_v2, W4Format::symmetric, kBytes, gptq_v2, {}, 1); },
                 "the zero of group 0, column 0, which is 255: symmetric cannot store it; accepted: 128");
  const std::vector<std::uint32_t> most(4, 0xff7f7f7f);
  expect_refused([&] { convert_qzeros(W4Format::gptq, W4Format::gptq_v2, kBytes, most, zeros, 1); },
                 "the zero of group 0, column 3, which is 256: gptq_v2 cannot store it; accepted: 0 to 255");
  expect_refused([&] { convert_qweight(W4Format::gptq, W4Format::awq, kBytes, qweight, words, 1); },
                 "weights of 8 bits: gptq cannot be converted to awq with this number of bits; accepted: 4");
  expect_refused(
      [&] {
        convert_qweight(W4Format::gptq, W4Format::gptq_v2, {8, 64, 2, 3}, qweight, words, 1);
      },
      "weights of 3 bits: gptq cannot be converted to gptq_v2 with this number of bits; accepted: 4, 8");
}

TEST(W4Conversion, RefusesZerosThatTheOtherCannotStore) {
  Layer gptq = random_layer(W4Format::gptq, true);
  gptq.qzeros[2 * 5 + 3] = 0x77777f77;  // group 2, column 26: 16
  for (const int threads : {1, 4}) {
    expect_refused([&] { gptq.converted(W4Format::awq, threads); },
                   "the zero of group 2, column 26, which is 16: awq cannot store it; accepted: 0 to 15");
    expect_refused([&] { gptq.converted(W4Format::gptq_v2, threads); },
                   "the zero of group 2, column 26, which is 16: gptq_v2 cannot store it; accepted: 0 to 15");
    expect_refused([&] { gptq.converted(W4Format::symmetric, threads); },
                   "the zero of group 2, column 26, which is 16: symmetric cannot store it; accepted: 8");
  }
  Layer awq = random_layer(W4Format::awq, true);
  awq.qzeros[0] = 0x88880888;  // nibble 3 of awq is column 6
  expect_refused([&] { awq.converted(W4Format::gptq, 1); },
                 "the zero of group 0, column 6, which is 0: gptq cannot store it; accepted: 1 to 16");
  EXPECT_EQ(awq.converted(W4Format::gptq_v2, 1).qzeros[0], 0x80888888u);
  expect_refused([&] { awq.converted(W4Format::symmetric, 1); },
                 "the zero of group 0, column 6, which is 0: symmetric cannot store it; accepted: 8");
}

TEST(W4Conversion, RefusesWordsThatDoNotFit) {
  const Layer layer = random_layer(W4Format::gptq, true);
  std::vector<std::uint32_t> dst(kSizes.qweight_words() - 1);
  expect_refused([&] { convert_qweight(W4Format::gptq, W4Format::awq, kSizes, layer.qweight, dst, 1); },
                 "the result's qweight of 479 words: it does not fit the layer's sizes; accepted: 480");
  for (const W4LayerSizes sizes : {W4LayerSizes{12, 96, 3}, W4LayerSizes{40, 96, 0}, W4LayerSizes{40, 96, 5}})
    expect_refused(
        [&] { convert_qweight(W4Format::gptq, W4Format::awq, sizes, {}, {}, 1); },
        "n = " + std::to_string(sizes.n) + ", k = 96 and " + std::to_string(sizes.groups) +
            " groups: a layer cannot have these sizes; accepted: multiples of 8 for n and k, and groups of a "
            "power of two input features or groups that divide k");
  expect_refused([&] { convert_qzeros(W4Format::symmetric, W4Format::awq, kSizes, layer.qzeros, dst, 1); },
                 "the source's qzeros of 15 words: it does not fit the layer's sizes; accepted: 0");
}

TEST(W4Conversion, KnowsAGroupIndexThatSaysNothing) {
  std::vector<std::int32_t> g_idx(96);
  for (int k = 0; k < 96; ++k) g_idx[k] = k / 32;
  EXPECT_TRUE(is_in_order(g_idx, kSizes));
  std::swap(g_idx[31], g_idx[32]);
  EXPECT_FALSE(is_in_order(g_idx, kSizes));
  EXPECT_FALSE(is_in_order(g_idx, {40, 96, 97})) << "more groups than k's";
  g_idx.resize(95);
  EXPECT_FALSE(is_in_order(g_idx, kSizes));
}

TEST(W4Conversion, FindsTheGroupSizeOfALastGroupThatIsShorter) {
  const auto group_size = [](std::int64_t k, std::int64_t groups) { return W4LayerSizes{8, k, groups}.group_size(); };
  for (const std::int64_t size : {16, 32, 64, 128, 256})
    for (std::int64_t k = size + 8; k <= 1024; k += 8) EXPECT_EQ(group_size(k, (k + size - 1) / size), size) << k;
  EXPECT_EQ(group_size(96, 1), 96) << "one group has all of k";
  EXPECT_EQ(group_size(72, 3), 32) << "32, 32 and 8, although 3 divides 72";
  EXPECT_EQ(group_size(120, 5), 24) << "no power of two gives 5 groups";
  EXPECT_EQ(group_size(96, 5), 0);
  EXPECT_EQ(group_size(96, 0), 0);
}

TEST(W4Conversion, KnowsAGroupIndexWhoseLastGroupIsShorter) {
  std::vector<std::int32_t> g_idx(72);
  for (int k = 0; k < 72; ++k) g_idx[k] = k / 32;
  EXPECT_TRUE(is_in_order(g_idx, {40, 72, 3}));
  EXPECT_FALSE(is_in_order(g_idx, {40, 72, 4})) << "groups of 32 are three";
  for (int k = 0; k < 72; ++k) g_idx[k] = k / 24;
  EXPECT_TRUE(is_in_order(g_idx, {40, 72, 3})) << "three groups of 24";
  for (int k = 0; k < 72; ++k) g_idx[k] = k / 40;
  EXPECT_FALSE(is_in_order(g_idx, {40, 72, 2})) << "40 is neither a power of two nor half of 72";
}

}  // namespace
}  // namespace cubit
