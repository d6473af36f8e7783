#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/calibrate/tensors.hpp"

namespace cubit::calibrate {
namespace {

constexpr Method kMethods[] = {Method::minmax, Method::percentile, Method::entropy, Method::mse};
constexpr Format kFormats[] = {Format::int8, Format::int8_asymmetric, Format::e4m3};

Statistics statistics_of(const std::vector<float>& values, std::int64_t channels = 1) {
  Statistics statistics;
  add_all(statistics, values, channels);
  return statistics;
}

std::string error_of(const Statistics& statistics, const RangeChoice& choice) {
  try {
    choose_range(statistics, choice);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
    return error.what();
  }
  return "no error";
}

TEST(Ranges, MinmaxGivesEveryFormatItsScale) {
  const Statistics statistics = statistics_of({-1, 0.5, 3});
  const Range int8 = choose_range(statistics, {Method::minmax, Format::int8});
  EXPECT_EQ(int8.low, -3);
  EXPECT_EQ(int8.high, 3);
  EXPECT_DOUBLE_EQ(int8.scale, 3.0 / 127);
  EXPECT_EQ(int8.zero_point, 0);
  EXPECT_EQ(int8.clipped, 0);
  const Range asymmetric = choose_range(statistics, {Method::minmax, Format::int8_asymmetric});
  EXPECT_EQ(asymmetric.low, -1);
  EXPECT_EQ(asymmetric.high, 3);
  EXPECT_DOUBLE_EQ(asymmetric.scale, 4.0 / 255);
  EXPECT_EQ(asymmetric.zero_point, -64);  // code -128 stores -1
  EXPECT_DOUBLE_EQ(choose_range(statistics, {Method::minmax, Format::e4m3}).scale, 3.0 / 448);
}

TEST(Ranges, AnAsymmetricRangeHoldsZero) {
  const Range range = choose_range(statistics_of({2, 3}), {Method::minmax, Format::int8_asymmetric});
  EXPECT_EQ(range.low, 0);
  EXPECT_EQ(range.zero_point, -128);
  EXPECT_EQ(choose_range(statistics_of({-2, -3}), {Method::minmax, Format::int8_asymmetric}).zero_point, 127);
}

TEST(Ranges, ConstantAndZeroTensorsHaveDocumentedValues) {
  for (const Method method : kMethods) {
    for (const Format format : kFormats) {
      const Range zero = choose_range(statistics_of({0, 0, 0}), {method, format});
      EXPECT_EQ(zero.scale, 1);
      EXPECT_EQ(zero.zero_point, 0);
      EXPECT_EQ(zero.high, 0);
      EXPECT_EQ(choose_range(statistics_of({-2, -2}), {method, format}).low, -2);
    }
  }
}

TEST(Ranges, MethodsClipAnOutlier) {
  std::vector<float> values = normal_values(100000, 4);
  values[17] = 50;
  const Statistics statistics = statistics_of(values);
  const auto range_of = [&](Method method) { return choose_range(statistics, {method, Format::int8, 99.9}); };
  const Range widest = range_of(Method::minmax);
  EXPECT_EQ(widest.high, 50);
  for (const Method method : {Method::percentile, Method::entropy, Method::mse}) {
    const Range range = range_of(method);
    EXPECT_LT(range.high, 40) << text_of(method);
    EXPECT_GT(range.high, 5) << text_of(method);
    EXPECT_GT(range.clipped, 0) << text_of(method);
    EXPECT_LE(range_of(Method::mse).error, range.error * (1 + 1e-6)) << text_of(method);
  }
  EXPECT_NEAR(range_of(Method::percentile).clipped, 0.001, 1e-6);
  EXPECT_LT(range_of(Method::mse).error, widest.error * 0.7);
}

TEST(Ranges, APercentileKeepsItsShareOfTheValues) {
  std::vector<float> values(999, 1);  // 99.9% of 1000 values, although 99.9 / 100 * 1000 > 999 in binary
  values.push_back(1000);
  EXPECT_NEAR(choose_range(statistics_of(values), {Method::percentile, Format::int8, 99.9}).high, 1, 0.25);
  for (float& value : values) value = -value;
  values.insert(values.end(), 1000, 1);
  EXPECT_NEAR(choose_range(statistics_of(values), {Method::percentile, Format::int8_asymmetric, 99.9}).low, -1, 0.25);
}

TEST(Ranges, NothingIsClippedWhereTheRangeHoldsAllValues) {
  const Statistics statistics = statistics_of({-0.3F, 0.1F, 0.7F, 1.1F});
  for (const Format format : kFormats) {
    const Range range = choose_range(statistics, {Method::percentile, format, 100});
    EXPECT_GE(range.high, statistics.maximum()) << text_of(format);
    EXPECT_EQ(range.clipped, 0) << text_of(format);
  }
}

TEST(Ranges, PerChannel) {
  const auto ranges = channel_ranges(statistics_of({-1, 0, 2, 4, 0, 1}, 3), Format::int8_asymmetric);
  ASSERT_EQ(ranges.size(), 3);
  EXPECT_EQ(ranges[0].low, -1);
  EXPECT_EQ(ranges[0].high, 4);
  EXPECT_EQ(ranges[1].scale, 1);
  EXPECT_DOUBLE_EQ(ranges[2].scale, 2.0 / 255);
}

TEST(Ranges, TinyMagnitudesKeepANormalScale) {
  const Range range = choose_range(statistics_of({1e-44F, -1e-45F}), {Method::mse, Format::int8});
  EXPECT_EQ(range.scale, 0x1p-126);
}

TEST(Ranges, ErrorsSayWhatWouldBeAccepted) {
  const Statistics bad = statistics_of({1, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_EQ(error_of(bad, {}),
            "1 of 2 values: are not finite; record activations again without NaNs and infinities, or leave this layer "
            "out");
  EXPECT_EQ(error_of(Statistics(), {}), "statistics: have no values; add at least one batch that is not empty");
  Statistics plain({.histogram = false});
  add_all(plain, {1, 2}, 1);
  EXPECT_EQ(error_of(plain, {Method::mse}), "method mse: needs a histogram; collect one, or use minmax");
  EXPECT_EQ(error_of(plain, {}), "no error");
  EXPECT_EQ(error_of(statistics_of({1, 2}), {Method::percentile, Format::int8, 101}),
            "percentile 101.000000: is not a share in percent; accepted: 0 < percentile <= 100");
  EXPECT_THROW(parse_method("kl"), Error);
  EXPECT_THROW(parse_format("int4"), Error);
  for (const Method method : kMethods) EXPECT_EQ(parse_method(text_of(method)), method);
  for (const Format format : kFormats) EXPECT_EQ(parse_format(text_of(format)), format);
}

TEST(Results, HaveTheNamesOfCompressedTensors) {
  const std::string path = testing::TempDir() + "scales.safetensors";
  const std::vector<LayerRange> ranges = {
      {"model.layers.0.mlp.up_proj", {Method::mse, Format::int8}, {-2, 2, 0.5, 0, 0.25, 0.125}},
      {"model.layers.0.mlp.down_proj", {Method::percentile, Format::int8_asymmetric, 99}, {-1, 2, 0.25, -43, 0, 0}}};
  write_scales(path, ranges);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const std::size_t length = static_cast<unsigned char>(bytes[0]) + 256U * static_cast<unsigned char>(bytes[1]);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(header.size(), 3);  // no metadata, because the formats differ
  const auto scale = header.at("model.layers.0.mlp.down_proj.input_scale");
  EXPECT_EQ(scale.at("dtype"), "F32");
  EXPECT_EQ(scale.at("shape"), nlohmann::json::array({1}));
  float value = 0;
  std::memcpy(&value, bytes.data() + 8 + length + scale.at("data_offsets").at(0).get<std::size_t>(), sizeof value);
  EXPECT_EQ(value, 0.25F);
  const auto zero = header.at("model.layers.0.mlp.down_proj.input_zero_point");
  EXPECT_EQ(zero.at("dtype"), "I8");
  EXPECT_EQ(bytes[8 + length + zero.at("data_offsets").at(0).get<std::size_t>()], -43);

  const auto json = nlohmann::json::parse(ranges_json(ranges));
  EXPECT_EQ(json.at("model.layers.0.mlp.up_proj").at("method"), "mse");
  EXPECT_EQ(json.at("model.layers.0.mlp.up_proj").at("scale"), 0.5);
  EXPECT_FALSE(json.at("model.layers.0.mlp.up_proj").contains("percentile"));
  EXPECT_EQ(json.at("model.layers.0.mlp.down_proj").at("percentile"), 99);
}

TEST(Results, AScaleBeyondFloatIsRefused) {
  const std::string path = testing::TempDir() + "no_scales.safetensors";
  std::filesystem::remove(path);
  const std::vector<LayerRange> ranges = {{"down", {Method::minmax, Format::int8}, {-127e300, 127e300, 1e300}}};
  try {
    write_scales(path, ranges);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(error.what()),
              "layer down, scale 1e+300: exceeds the largest F32 number; leave the layer out, or give activations of "
              "smaller magnitude");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Results, APathThatCannotBeWrittenIsASentence) {
  try {
    write_scales("/nowhere/scales.safetensors", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "/nowhere/scales.safetensors: cannot be written: No such file or directory; give a path that can be "
              "written");
  }
}

}  // namespace
}  // namespace cubit::calibrate
