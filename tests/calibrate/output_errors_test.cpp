// Output errors on all tokens and output channels, compared with a plain computation in double precision.
#include <gtest/gtest.h>
#include <cubit/smooth.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/calibrate/tensors.hpp"

namespace cubit::calibrate {
namespace {

using Values = std::vector<double>;

/// Rounds values, which share the largest magnitude, to codes from -127 to 127.
Values rounded_to_int8(Values values, double largest) {
  for (double& value : values) value = std::nearbyint(value / largest * 127) * largest / 127;
  return values;
}

double largest_of(const Values& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

struct Problem {
  std::size_t channels;
  std::vector<float> tokens;
  std::vector<float> weight;  ///< [out, in]

  Values inputs() const {
    Values largest(channels);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      largest[i % channels] = std::max(largest[i % channels], double{std::abs(tokens[i])});
    return largest;
  }
  double expected(const std::vector<float>& factors) const {
    Values smoothed(tokens.begin(), tokens.end());
    for (std::size_t i = 0; i < smoothed.size(); ++i) smoothed[i] /= factors[i % channels];
    const Values codes = rounded_to_int8(smoothed, largest_of(smoothed));
    double error = 0;
    double square = 0;
    for (std::size_t row = 0; row < weight.size(); row += channels) {
      Values changed(weight.begin() + static_cast<std::ptrdiff_t>(row),
                     weight.begin() + static_cast<std::ptrdiff_t>(row + channels));
      for (std::size_t i = 0; i < channels; ++i) changed[i] *= factors[i];
      changed = rounded_to_int8(changed, largest_of(changed));
      for (std::size_t token = 0; token < tokens.size(); token += channels) {
        double exact = 0;
        double got = 0;
        for (std::size_t i = 0; i < channels; ++i) {
          exact += double{tokens[token + i]} * weight[row + i];
          got += codes[token + i] * changed[i];
        }
        error += (got - exact) * (got - exact);
        square += exact * exact;
      }
    }
    return error / square;
  }
};

/// Files with the given tokens, and one file without the layer.
std::vector<std::string> recorded_in_three_files(const Problem& problem, const std::string& name) {
  const std::string folder = testing::TempDir() + name;
  std::filesystem::remove_all(folder);
  Recorder recorder(folder);
  const auto cut = static_cast<std::ptrdiff_t>(problem.channels);  // one token, then the rest
  const auto channels = static_cast<std::int64_t>(problem.channels);
  const std::vector<float> first(problem.tokens.begin(), problem.tokens.begin() + cut);
  const std::vector<float> rest(problem.tokens.begin() + cut, problem.tokens.end());
  recorder.add("layer", tensor_of("F32", {1, channels}, first));
  recorder.end_batch();
  recorder.add("other", tensor_of("F32", {1, channels}, first));
  recorder.end_batch();
  recorder.add("layer", tensor_of("F32", {static_cast<std::int64_t>(rest.size()) / channels, channels}, rest));
  recorder.end_batch();
  return activation_files(folder);
}

TEST(OutputErrors, AreThoseOfAllTokensAndChannels) {
  // Sizes around the blocks of rows and tokens that are computed together.
  for (const auto& [channels, outputs, tokens] : {std::array{1, 1, 2}, std::array{19, 7, 3}, std::array{40, 33, 600}}) {
    const auto width = static_cast<std::size_t>(channels);
    Problem problem{width, normal_values(width * static_cast<std::size_t>(tokens), 1),
                    normal_values(width * static_cast<std::size_t>(outputs), 2)};
    std::fill_n(problem.tokens.begin() + channels, channels, 0.0F);  // a token of zeros
    std::vector<std::vector<float>> choices(2, std::vector<float>(width, 1));
    for (std::size_t i = 0; i < width; ++i) choices[1][i] = 0.25F + static_cast<float>(i % 5);
    const auto files = recorded_in_three_files(problem, "output_errors");
    std::vector<float> turned(problem.weight.size());
    for (std::size_t i = 0; i < turned.size(); ++i)
      turned[i % width * static_cast<std::size_t>(outputs) + i / width] = problem.weight[i];
    for (const bool input_first : {false, true}) {
      OutputErrors errors(problem.inputs(), choices);
      std::size_t shown = 0;
      const std::vector<std::int64_t> shape = {input_first ? channels : outputs, input_first ? outputs : channels};
      for (int layer = 0; layer < 2; ++layer)
        errors.add_layer(tensor_of("F32", shape, input_first ? turned : problem.weight), input_first, files, "layer",
                         [&](std::size_t done) { shown = done; });
      EXPECT_EQ(shown, files.size());
      for (std::size_t i = 0; i < choices.size(); ++i)
        EXPECT_NEAR(errors.errors()[i], problem.expected(choices[i]), 1e-3 * problem.expected(choices[i]) + 1e-12)
            << channels << " channels, choice " << i;
    }
  }
}

TEST(OutputErrors, SizesMustFit) {
  EXPECT_THROW(OutputErrors({1, 2}, {{1}}), Error);
  OutputErrors errors({1, 2}, {{1, 1}});
  const std::vector<float> weight = {1, 2, 3};
  EXPECT_THROW(errors.add_layer(tensor_of("F32", {1, 3}, weight), false, {}, "layer"), Error);
  EXPECT_EQ(errors.errors(), std::vector<double>{0});
}

}  // namespace
}  // namespace cubit::calibrate
