#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "tests/calibrate/tensors.hpp"

namespace cubit::calibrate {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void expect_equal_bins(const Histogram& a, const Histogram& b) {
  EXPECT_EQ(a.exponent, b.exponent);
  EXPECT_TRUE(std::ranges::equal(a.positive, b.positive));
  EXPECT_TRUE(std::ranges::equal(a.negative, b.negative));
}

void expect_equal(const Statistics& a, const Statistics& b) {
  EXPECT_EQ(a.tokens(), b.tokens());
  EXPECT_EQ(a.count(), b.count());
  EXPECT_EQ(a.non_finite(), b.non_finite());
  EXPECT_EQ(a.minimum(), b.minimum());
  EXPECT_EQ(a.maximum(), b.maximum());
  EXPECT_EQ(a.moments().mean, b.moments().mean);
  EXPECT_EQ(a.moments().variance, b.moments().variance);
  EXPECT_TRUE(std::ranges::equal(a.channel_minima(), b.channel_minima()));
  EXPECT_TRUE(std::ranges::equal(a.channel_maxima(), b.channel_maxima()));
  expect_equal_bins(a.histogram(), b.histogram());
  expect_equal_bins(a.token_ranges(), b.token_ranges());
}

/// The message of the cubit::Error that the function throws.
template <class Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
    return error.what();
  }
  return "no error";
}

TEST(Statistics, CountRangesAndMomentsOfASmallTensor) {
  Statistics statistics;
  statistics.add(tensor_of<float>("F32", {2, 3}, {1, -4, 0, 3, 2, -2}));
  EXPECT_EQ(statistics.batches(), 1);
  EXPECT_EQ(statistics.tokens(), 2);
  EXPECT_EQ(statistics.channels(), 3);
  EXPECT_EQ(statistics.count(), 6);
  EXPECT_EQ(statistics.minimum(), -4);
  EXPECT_EQ(statistics.maximum(), 3);
  EXPECT_EQ(statistics.moments().mean, 0);
  EXPECT_DOUBLE_EQ(statistics.moments().variance, 34.0 / 6);
  EXPECT_THAT(statistics.channel_minima(), testing::ElementsAre(1, -4, -2));
  EXPECT_THAT(statistics.channel_maxima(), testing::ElementsAre(3, 2, 0));
  EXPECT_THAT(statistics.channel_magnitudes(), testing::ElementsAre(3, 4, 2));
  EXPECT_EQ(statistics.channel_moments()[1].mean, -1);
  EXPECT_EQ(statistics.channel_moments()[1].variance, 9);
}

TEST(Statistics, BinsOfAPowerOfTwoRange) {
  Statistics statistics;
  statistics.add(tensor_of<float>("F32", {5}, {0, 1, -1, 3.9990234F, 2}));
  const Histogram histogram = statistics.histogram();
  EXPECT_EQ(histogram.exponent, 2);  // 3.999 < 2^2
  EXPECT_EQ(histogram.positive[0], 1);
  EXPECT_EQ(histogram.positive[1024], 1);
  EXPECT_EQ(histogram.negative[1024], 1);
  EXPECT_EQ(histogram.positive[2048], 1);
  EXPECT_EQ(histogram.positive[4095], 1);
  statistics.add(tensor_of<float>("F32", {5}, {4, 0, 0, 0, 0}));
  EXPECT_EQ(statistics.histogram().exponent, 3);  // 4 is not below 2^2
  EXPECT_EQ(statistics.histogram().positive[512], 1);
  EXPECT_EQ(statistics.histogram().positive[0], 5);
}

TEST(Statistics, EveryTypeGivesTheSame) {
  // Values that even e4m3 holds: 1.5, -0.375, 0 and 2^-9.
  const std::vector<float> values = {1.5F, -0.375F, 0, 0x1p-9F};
  Statistics expected;
  expected.add(tensor_of("F32", {2, 2}, values));
  const auto same = [&](const Tensor& tensor) {
    Statistics statistics;
    statistics.add(tensor);
    expect_equal(statistics, expected);
  };
  same(tensor_of<double>("F64", {2, 2}, {1.5, -0.375, 0, 0x1p-9}));
  same(tensor_of<std::uint16_t>("F16", {2, 2}, {0x3E00, 0xB600, 0, 0x1800}));
  same(tensor_of<std::uint16_t>("BF16", {2, 2}, {0x3FC0, 0xBEC0, 0x8000, 0x3B00}));
  same(tensor_of<std::uint8_t>("F8_E4M3", {2, 2}, {0x3C, 0xAC, 0x80, 0x01}));
  same(tensor_of<std::uint8_t>("F8_E5M2", {2, 2}, {0x3E, 0xB6, 0, 0x18}));
}

TEST(Statistics, SpecialCodesOfSmallTypes) {
  const auto non_finite = [](const Tensor& tensor) {
    Statistics statistics;
    statistics.add(tensor);
    return statistics.non_finite();
  };
  EXPECT_EQ(non_finite(tensor_of<std::uint8_t>("F8_E4M3", {4}, {0x7F, 0xFF, 0x7E, 0xFE})), 2);
  EXPECT_EQ(non_finite(tensor_of<std::uint8_t>("F8_E5M2", {4}, {0x7C, 0xFD, 0x7B, 0xFB})), 2);
  EXPECT_EQ(non_finite(tensor_of<std::uint16_t>("F16", {4}, {0x7C00, 0xFE01, 0x7BFF, 0x0001})), 2);
  Statistics smallest;
  smallest.add(tensor_of<std::uint16_t>("F16", {2}, {0x0001, 0xFBFF}));
  EXPECT_EQ(smallest.maximum(), 0x1p-24);
  EXPECT_EQ(smallest.minimum(), -65504);
}

TEST(Statistics, OrderThreadsAndMergesChangeNothing) {
  constexpr std::int64_t kChannels = 96;
  const std::vector<float> values = normal_values(kChannels * 8000, 1);
  Statistics whole;
  add_all(whole, values, kChannels);
  Statistics threaded;
  const std::vector<std::int64_t> shape = {8000, kChannels};
  threaded.add(tensor_of("F32", shape, values), 3);
  expect_equal(threaded, whole);
  std::vector<float> scaled = values;
  for (float& value : scaled) value *= 0x1p-30F;
  Statistics forward;
  Statistics backward;
  Statistics small;
  add_all(small, scaled, kChannels);
  forward.merge(whole);
  forward.merge(small);
  backward.merge(small);
  backward.merge(whole);
  expect_equal(forward, backward);
  add_all(whole, scaled, kChannels);
  expect_equal(forward, whole);
  EXPECT_EQ(whole.batches(), 2);
}

TEST(Statistics, ValuesThatAreNotFiniteAreCountedAndLeftOut) {
  Statistics statistics;
  statistics.add(tensor_of<float>("F32", {2, 3}, {1, kNan, -2, kInfinity, -kInfinity, 3}));
  EXPECT_EQ(statistics.non_finite(), 3);
  EXPECT_EQ(statistics.count(), 3);
  EXPECT_EQ(statistics.minimum(), -2);
  EXPECT_EQ(statistics.maximum(), 3);
  EXPECT_THAT(statistics.channel_magnitudes(), testing::ElementsAre(1, 0, 3));
  EXPECT_EQ(statistics.channel_minima()[1], kInfinity);  // no finite value
  EXPECT_EQ(statistics.channel_moments()[2].mean, 0.5);
  EXPECT_EQ(statistics.channel_moments()[1].mean, 0);
  EXPECT_EQ(statistics.token_ranges().exponent, 2);
  Statistics one_token;
  one_token.add(tensor_of<float>("F32", {1, 2}, {kNan, kNan}));
  EXPECT_EQ(one_token.tokens(), 1);
  EXPECT_EQ(one_token.count(), 0);
  EXPECT_EQ(one_token.minimum(), 0);
}

TEST(Statistics, ExtremeMagnitudes) {
  Statistics statistics;
  statistics.add(tensor_of<double>("F64", {4}, {1e308, -1e308, 5e-324, 0x1p-1060}));
  EXPECT_EQ(statistics.histogram().exponent, 1024);
  EXPECT_EQ(statistics.moments().mean, (5e-324 + 0x1p-1060) / 4);
  Statistics floats;
  floats.add(tensor_of<float>("F32", {3}, {3.4e38F, 1e-45F, -1e-38F}));
  EXPECT_EQ(floats.histogram().exponent, 128);
  EXPECT_EQ(floats.histogram().positive[0], 1);
  EXPECT_EQ(floats.histogram().negative[0], 1);
}

TEST(Statistics, CancellationLeavesTheSumExact) {
  Statistics statistics;
  statistics.add(tensor_of<float>("F32", {4}, {1e30F, 1, -1e30F, 1}));
  EXPECT_EQ(statistics.moments().mean, 0.5);
  Statistics offset;  // the variance is tiny beside the mean's square
  std::vector<float> values(1000, 4096);
  values[0] = 4096.0005F;
  add_all(offset, values, 1);
  const double deviation = static_cast<double>(values[0]) - 4096;
  EXPECT_NEAR(offset.moments().variance / (deviation * deviation * 999 / 1e6), 1, 1e-12);
}

TEST(Statistics, AMeanIsFiniteWhereTheSumIsNot) {
  Statistics statistics;
  statistics.add(tensor_of<double>("F64", {3}, {1.5e308, 1.5e308, 1.5e308}));
  EXPECT_EQ(statistics.moments().mean, 1.5e308);
  EXPECT_EQ(statistics.moments().variance, 0);
}

TEST(Statistics, AChannelsVarianceIsExactBesideALargeMean) {
  constexpr double kOffset = 1e6;  // a million deviations
  std::vector<double> values;
  for (const float value : normal_values(5000, 9)) values.push_back(kOffset + value / 2);
  long double sum = 0;
  long double squares = 0;
  for (const double value : values) {
    const long double difference = value - kOffset;
    sum += difference;
    squares += difference * difference;
  }
  const auto n = static_cast<long double>(values.size());
  const auto expected = static_cast<double>((squares - sum * sum / n) / n);
  Statistics statistics;
  statistics.add(tensor_of<double>("F64", {5000, 1}, values));
  EXPECT_NEAR(statistics.channel_moments()[0].variance / expected, 1, 1e-12);
  EXPECT_NEAR(statistics.moments().variance / expected, 1, 1e-12);
}

TEST(Statistics, ShapesOfTokensAndChannels) {
  Statistics scalar;
  scalar.add(tensor_of<float>("F32", {}, {2}));
  EXPECT_EQ(scalar.channels(), 1);
  EXPECT_EQ(scalar.tokens(), 1);
  Statistics batch;
  batch.add(tensor_of<float>("F32", {0, 4}, {}));
  EXPECT_EQ(batch.tokens(), 0);
  batch.add(tensor_of("F32", {2, 3, 4}, normal_values(24, 2)));
  EXPECT_EQ(batch.tokens(), 6);
  EXPECT_EQ(batch.batches(), 2);
}

TEST(Statistics, RangesAloneCostNeitherHistogramNorMoments) {
  Statistics statistics({.histogram = false, .moments = false});
  statistics.add(tensor_of<float>("F32", {2, 2}, {1, -4, 0, 3}));
  EXPECT_EQ(statistics.minimum(), -4);
  EXPECT_THAT(statistics.channel_magnitudes(), testing::ElementsAre(1, 4));
  EXPECT_TRUE(statistics.channel_moments().empty());
  EXPECT_EQ(statistics.histogram().positive[0], 0);
}

TEST(Statistics, ErrorsSayWhatWouldBeAccepted) {
  Statistics statistics;
  statistics.add(tensor_of<float>("F32", {1, 2}, {1, 2}));
  EXPECT_EQ(error_of([&] {
              statistics.add(tensor_of<float>("F32", {1, 3}, {1, 2, 3}));
            }),
            "a batch of 3 channels: does not fit the earlier batches; give tensors whose last dimension is 2");
  EXPECT_EQ(error_of([&] {
              statistics.add(tensor_of<float>("F32", {2, 2}, {1, 2, 3}));
            }),
            "a tensor of 12 bytes: does not have the size of its shape and type; give 4 elements");
  EXPECT_EQ(error_of([&] {
              statistics.add(tensor_of<float>("I32", {1, 2}, {1, 2}));
            }),
            "type I32: is not a floating-point type; accepted: F64, F32, F16, BF16, F8_E4M3, F8_E5M2");
  EXPECT_EQ(error_of([&] {
              statistics.add(tensor_of<float>("F32", {-1, 2}, {}));
            }),
            "a shape: has a negative or too large size; give the shape of the tensor's data");
  Statistics other;
  other.add(tensor_of<float>("F32", {1, 3}, {1, 2, 3}));
  EXPECT_EQ(error_of([&] { statistics.merge(other); }),
            "statistics of 3 channels: cannot be merged with statistics of 2; merge statistics of the same layer");
  EXPECT_EQ(error_of([&] { statistics.merge(Statistics({.histogram = false})); }),
            "statistics: were not collected with the same parts; merge statistics of the same Collect");
  EXPECT_EQ(statistics.batches(), 1);
}

}  // namespace
}  // namespace cubit::calibrate
