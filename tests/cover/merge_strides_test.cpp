// merge over tensors whose strides are all different, in the layout of FlashInfer's merge_states ([rows, parts, heads,
// channels]), and in the place of one of its parts. Skipped where there is no NVRTC.
#include <cubit/merge.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

constexpr int kParts = 3;
constexpr int kRows = 5;
constexpr int kHeads = 2;
constexpr int kChannels = 24;
constexpr float kUntouched = 99;

/// Floats on the device, and what they were before.
class Floats {
 public:
  Floats(const Device& device, std::vector<float> values)
      : host(std::move(values)), device_(device), buffer_(device, 4 * host.size(), 0) {
    device.upload(buffer_.data(), host.data(), buffer_.bytes());
  }
  float* data() const { return static_cast<float*>(buffer_.data()); }
  void fetch() {
    device_.download(host.data(), buffer_.data(), buffer_.bytes());
    EXPECT_TRUE(buffer_.guards_intact());
  }
  std::vector<float> host;

 private:
  Device device_;
  GuardedBuffer buffer_;
};

float part_value(int part, int row, int head, int channel) {
  return static_cast<float>(part * 100 + row * 10 + head) + 0.25f * static_cast<float>(channel);
}

TEST(MergeStrides, EveryTensorHasItsOwnAndAPartMayBeTheResult) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Device device("cpu:sm_80");
  device.watch(CUBIT_WATCH_MEMORY);
  constexpr int kPitch = kChannels + 4;  // padded rows
  std::vector<float> values(kRows * kParts * kHeads * kPitch, kUntouched);
  std::vector<float> weights(kHeads * kParts * kRows);
  const auto at = [](int part, int row, int head) { return ((row * kParts + part) * kHeads + head) * kPitch; };
  const auto weight_at = [](int part, int row, int head) { return (head * kParts + part) * kRows + row; };
  for (int part = 0; part < kParts; ++part)
    for (int row = 0; row < kRows; ++row)
      for (int head = 0; head < kHeads; ++head) {
        weights[weight_at(part, row, head)] = std::log(static_cast<float>(1 + part + row));
        for (int channel = 0; channel < kChannels; ++channel)
          values[at(part, row, head) + channel] = part_value(part, row, head, channel);
      }
  Floats outputs(device, values);
  const Floats partial_lse(device, weights);
  Floats lse(device, std::vector<float>(kRows * kHeads * 2, kUntouched));
  cubit_merge_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.partial_outputs = outputs.data();
  arguments.partial_output_strides[0] = kHeads * kPitch;
  arguments.partial_output_strides[1] = kParts * kHeads * kPitch;
  arguments.partial_output_strides[2] = kPitch;
  arguments.partial_lse = partial_lse.data();
  arguments.partial_lse_strides[0] = kRows;
  arguments.partial_lse_strides[1] = 1;
  arguments.partial_lse_strides[2] = kParts * kRows;
  arguments.output = outputs.data() + at(1, 0, 0);  // the second part
  arguments.output_strides[0] = arguments.partial_output_strides[1];
  arguments.output_strides[1] = kPitch;
  arguments.lse = lse.data() + 2 * kRows * kHeads - 2;  // in reverse, every other
  arguments.lse_strides[0] = -2;
  arguments.lse_strides[1] = -2 * kRows;
  arguments.parts = kParts;
  arguments.rows = kRows;
  arguments.heads = kHeads;
  engine().get("merge:head_dim=24,input=fp32,output=fp32", "cpu:sm_80").launch(arguments, {.device = &device});
  device.synchronise(nullptr);
  outputs.fetch();
  lse.fetch();
  for (int row = 0; row < kRows; ++row)
    for (int head = 0; head < kHeads; ++head) {
      const float sum = static_cast<float>(kParts * (1 + row)) + 3;
      EXPECT_NEAR(lse.host[2 * (kRows * kHeads - 1 - head * kRows - row)], std::log(sum), 1e-6f);
      for (int channel = 0; channel < kPitch; ++channel) {
        float expected = 0;
        for (int part = 0; part < kParts; ++part)
          expected += static_cast<float>(1 + part + row) * part_value(part, row, head, channel) / sum;
        if (channel >= kChannels) expected = kUntouched;
        EXPECT_NEAR(outputs.host[at(1, row, head) + channel], expected, 1e-4f);
        for (const int part : {0, 2})
          EXPECT_EQ(outputs.host[at(part, row, head) + channel], values[at(part, row, head) + channel]);
      }
    }
  for (std::size_t i = 1; i < lse.host.size(); i += 2) EXPECT_EQ(lse.host[i], kUntouched);
}

struct Merged {
  std::vector<float> output;  // [items, channels]
  std::vector<float> lse;     // [items]
};

/// `values`: [parts, items, channels], `weights`: [parts, items].
constexpr int kFewChannels = 8;
Merged merged(int items, const std::vector<float>& values, const std::vector<float>& weights) {
  const Device device("cpu:sm_90a");
  const Floats partial_lse(device, weights);
  const Floats outputs(device, values);
  Floats output(device, std::vector<float>(items * kFewChannels, kUntouched));
  Floats lse(device, std::vector<float>(items, kUntouched));
  cubit_merge_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.partial_outputs = outputs.data();
  arguments.partial_lse = partial_lse.data();
  arguments.output = output.data();
  arguments.lse = lse.data();
  arguments.partial_output_strides[0] = items * kFewChannels;
  arguments.partial_output_strides[1] = arguments.output_strides[0] = kFewChannels;
  arguments.partial_lse_strides[0] = items;
  arguments.partial_lse_strides[1] = arguments.lse_strides[0] = 1;
  arguments.parts = static_cast<int>(weights.size()) / items;
  arguments.rows = items;
  arguments.heads = 1;
  engine().get("merge:head_dim=8,input=fp32,output=fp32", "cpu:sm_90a").launch(arguments, {.device = &device});
  device.synchronise(nullptr);
  output.fetch();
  lse.fetch();
  return {output.host, lse.host};
}

// Checks the rules of <cubit/merge.h> about +inf and NaN.
TEST(MergeSpecialValues, NanAndInfinityReachTheirOwnHeadAlone) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  constexpr int kMany = 9;  // parts, in three steps
  constexpr int kItems = 5;
  std::vector<float> weights(kMany * kItems, 1.f);
  weights[0 * kItems + 0] = INFINITY;
  weights[8 * kItems + 1] = INFINITY;
  weights[3 * kItems + 2] = NAN;
  for (int part = 0; part < kMany; ++part) weights[part * kItems + 3] = -INFINITY;
  const Merged result = merged(kItems, std::vector<float>(kMany * kItems * kFewChannels, 2.f), weights);
  for (int item = 0; item < 3; ++item) {
    EXPECT_TRUE(std::isnan(result.lse[item])) << item;
    for (int channel = 0; channel < kFewChannels; ++channel)
      EXPECT_TRUE(std::isnan(result.output[kFewChannels * item + channel])) << item;
  }
  EXPECT_EQ(result.lse[3], -INFINITY);
  EXPECT_EQ(result.output[3 * kFewChannels + 5], 0.f);
  EXPECT_NEAR(result.lse[4], 1 + std::log(9.f), 1e-6f);
  EXPECT_NEAR(result.output[4 * kFewChannels + 5], 2.f, 1e-6f);
}

// In whichever order, and however little it weighs: only an empty part's output is not looked at.
TEST(MergeSpecialValues, APartThatIsNotEmptyIsLookedAtHoweverLittleItWeighs) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  constexpr int kMany = 5;  // parts, in two steps; of item i part i has values that are no numbers
  for (const float little : {-20.f, -200.f, -1e30f, -INFINITY}) {
    std::vector<float> weights(kMany * kMany, 0.f);
    std::vector<float> values(kMany * kMany * kFewChannels, 2.f);
    for (int item = 0; item < kMany; ++item) {
      weights[item * kMany + item] = little;
      values[(item * kMany + item) * kFewChannels + 3] = INFINITY;
      values[(item * kMany + item) * kFewChannels + 4] = NAN;
    }
    const Merged result = merged(kMany, values, weights);
    for (int item = 0; item < kMany; ++item) {
      const float* const channels = result.output.data() + kFewChannels * item;
      const bool is_empty = little == -INFINITY;
      EXPECT_EQ(std::isfinite(channels[3]), is_empty) << item << " with " << little;
      EXPECT_EQ(std::isnan(channels[4]), !is_empty) << item << " with " << little;
      EXPECT_NEAR(channels[5], 2.f, 1e-6f);
    }
  }
}

}  // namespace
}  // namespace cubit::tests
