#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "tests/calibrate/tensors.hpp"

namespace cubit::calibrate {
namespace {

std::string state_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string error_of(const std::string& path) {
  try {
    read_statistics(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
    return error.what();
  }
  return "no error";
}

std::vector<NamedStatistics> two_layers() {
  std::vector<NamedStatistics> layers;
  layers.push_back({"a.b", Statistics()});
  layers.push_back({"c", Statistics({.histogram = false, .moments = false})});
  add_all(layers[0].statistics, normal_values(4000, 5), 40);
  add_all(layers[1].statistics, normal_values(300, 6), 3);
  return layers;
}

TEST(StateFile, KeepsEverything) {
  const std::string path = testing::TempDir() + "state.safetensors";
  const auto layers = two_layers();
  write_statistics(path, layers, "batches 1 to 3");
  std::string notes;
  const auto read = read_statistics(path, &notes);
  EXPECT_EQ(notes, "batches 1 to 3");
  ASSERT_EQ(read.size(), 2);
  EXPECT_EQ(read[0].layer, "a.b");
  EXPECT_EQ(read[1].layer, "c");
  EXPECT_EQ(read[0].statistics.tokens(), 100);
  EXPECT_EQ(read[0].statistics.moments().variance, layers[0].statistics.moments().variance);
  EXPECT_EQ(read[0].statistics.channel_moments()[7].mean, layers[0].statistics.channel_moments()[7].mean);
  EXPECT_TRUE(std::ranges::equal(read[0].statistics.histogram().negative, layers[0].statistics.histogram().negative));
  EXPECT_EQ(read[0].statistics.token_ranges().exponent, layers[0].statistics.token_ranges().exponent);
  EXPECT_FALSE(read[1].statistics.collect().histogram);
  EXPECT_FALSE(read[1].statistics.collect().moments);
  EXPECT_EQ(read[1].statistics.maximum(), layers[1].statistics.maximum());
  const std::string again = path + ".again";
  write_statistics(again, read, notes);
  EXPECT_EQ(state_bytes(again), state_bytes(path));
}

TEST(StateFile, StatisticsOfTwoProcessesMergeToThoseOfOne) {
  const std::vector<float> values = normal_values(6400, 8);
  const std::string whole_path = testing::TempDir() + "whole.safetensors";
  const std::string merged_path = testing::TempDir() + "merged.safetensors";
  const auto statistics_of = [](const std::vector<float>& some) {
    std::vector<NamedStatistics> layers;
    layers.push_back({"layer", Statistics({.histogram = true, .moments = false})});
    add_all(layers[0].statistics, some, 64);
    return layers;
  };
  auto whole = statistics_of({values.begin(), values.begin() + 1280});
  add_all(whole[0].statistics, {values.begin() + 1280, values.end()}, 64);
  write_statistics(whole_path, whole);
  write_statistics(merged_path, statistics_of({values.begin() + 1280, values.end()}));
  auto merged = read_statistics(merged_path);
  merged[0].statistics.merge(statistics_of({values.begin(), values.begin() + 1280})[0].statistics);
  write_statistics(merged_path, merged);
  EXPECT_EQ(state_bytes(merged_path), state_bytes(whole_path));
}

TEST(StateFile, DamageIsASentence) {
  const std::string path = testing::TempDir() + "damaged.safetensors";
  write_statistics(path, two_layers());
  const std::string bytes = state_bytes(path);
  write_file(path, bytes.substr(0, bytes.size() - 100));
  EXPECT_NE(error_of(path).find("safetensors file"), std::string::npos) << error_of(path);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = bytes;
    other.replace(other.find(from), from.size(), to);
    write_file(path, other);
    return error_of(path);
  };
  EXPECT_NE(changed("cubit.calibrate.1", "cubit.calibrate.9").find("is not a file of statistics"), std::string::npos);
  EXPECT_NE(changed("a.b.histograms", "a.b.histogramz").find("has no tensor a.b.histograms"), std::string::npos);
  EXPECT_NE(changed("a.b.channel_range", "a.b.channel_rangf").find("has no channels of layer a.b"), std::string::npos);
  EXPECT_NE(error_of(testing::TempDir() + "missing").find("cannot be read"), std::string::npos);
}

TEST(StateFile, ContradictingCountsAreRefused) {
  const std::string path = testing::TempDir() + "contradiction.safetensors";
  auto layers = two_layers();
  write_statistics(path, {layers.data(), 1});
  std::string bytes = state_bytes(path);
  const std::size_t data = bytes.find("}}") + 2;
  const std::size_t start = bytes.find_first_not_of(' ', data);  // the first byte of counts: one batch
  bytes[start + 8] = static_cast<char>(bytes[start + 8] + 1);    // a token more
  write_file(path, bytes);
  EXPECT_NE(error_of(path).find("has counts that contradict each other"), std::string::npos) << error_of(path);
}

TEST(StateFile, ContradictingRangesAreRefused) {
  const std::string path = testing::TempDir() + "ranges.safetensors";
  std::vector<NamedStatistics> layers;
  layers.push_back({"a", Statistics()});
  add_all(layers[0].statistics, {-3, 1, 2, 2}, 2);  // channel 0: -3 to 2, channel 1: 1 to 2; exponent 2
  write_statistics(path, layers);
  EXPECT_EQ(error_of(path), "no error");
  const std::string bytes = state_bytes(path);
  const std::size_t counts = bytes.find_first_not_of(' ', bytes.find("}}") + 2);
  const auto changed = [&](std::size_t at, const auto& value) {
    std::string other = bytes;
    std::memcpy(other.data() + counts + at, &value, sizeof value);
    write_file(path, other);
    return error_of(path);
  };
  constexpr std::size_t kExponents = 4 * 8;
  constexpr std::size_t kRange = 6 * 8;
  constexpr std::size_t kChannels = kRange + 2 * 8;
  EXPECT_EQ(changed(kRange, -3.0), "no error");
  const std::string expected = path + ": has ranges that contradict each other";
  const auto expect_refusal = [&](std::size_t at, const auto& value) {
    EXPECT_EQ(changed(at, value).substr(0, expected.size()), expected) << at << ", " << value;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const int exponent : {1, 3, -1000, 1024}) {
    expect_refusal(kExponents, exponent);
    expect_refusal(kExponents + 4, exponent);
  }
  for (const double value : {-2.0, -4.0, kInfinity, -kInfinity, std::nan("")}) {
    expect_refusal(kRange, value);
    expect_refusal(kChannels, value);
  }
  for (const double value : {1.0, 3.0, kInfinity, std::nan("")}) expect_refusal(kRange + 8, value);
  expect_refusal(kChannels + 2 * 8, -5.0);  // the maximum of channel 0 below its minimum
}

}  // namespace
}  // namespace cubit::calibrate
