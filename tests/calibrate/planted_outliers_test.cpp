// The output error of a transformer block in INT8, with and without SmoothQuant, where outlier channels were planted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include "tests/calibrate/tensors.hpp"
#include "tools/study/accuracy/transformer_block.hpp"

namespace cubit::calibrate {
namespace {

using tools::Matrix;
using tools::product;
using tools::relative_error;
using tools::run_block;
using tools::TransformerBlock;

constexpr tools::BlockSizes kSizes = {.hidden = 1024, .inner = 2048, .heads = 16};
constexpr std::size_t kTokens = 24;
constexpr float kLargestCode = 127;
constexpr double kErrorWithoutOutliers = 0.06;  ///< more than INT8 loses in the layers that no norm feeds

Matrix quantised(Matrix matrix, double scale) {
  const auto step = static_cast<float>(scale);
  for (float& value : matrix.values)
    value = std::clamp(std::nearbyint(value / step), -kLargestCode, kLargestCode) * step;
  return matrix;
}

/// Computes the block in fp32, or in INT8 once calibrate was called: one scale for each weight and each input.
class Network : public tools::HostSteps {
 public:
  explicit Network(const TransformerBlock& block) : HostSteps(block) {}

  /// Computes the block in fp32, and keeps the inputs of all layers for the scales of INT8.
  Matrix calibrate(const Matrix& inputs) {
    const Matrix exact = run_block(kSizes, inputs, *this);
    exact_inputs_ = HostSteps::inputs();
    for (const auto& [layer, input] : exact_inputs_) {
      scales_[layer] = scale_of(input);
      weight_scales_[layer] = scale_of(weight(layer));
    }
    return exact;
  }
  const std::map<std::string, Matrix>& exact_inputs() const { return exact_inputs_; }  ///< in fp32
  const std::map<std::string, double>& layer_errors() const { return layer_errors_; }  ///< of INT8

 private:
  static double scale_of(const Matrix& matrix) {
    Statistics statistics;
    statistics.add(tensor_of("F32", matrix.shape(), matrix.values));
    return choose_range(statistics, {}).scale;
  }
  Matrix multiply(const std::string& layer, const Matrix& input) override {
    Matrix exact = HostSteps::multiply(layer, input);
    if (!scales_.contains(layer)) return exact;
    Matrix got = product(quantised(input, scales_.at(layer)), quantised(weight(layer), weight_scales_.at(layer)));
    layer_errors_[layer] = relative_error(got, exact);
    return got;
  }

  std::map<std::string, Matrix> exact_inputs_;
  std::map<std::string, double> scales_;         ///< of the inputs; empty before calibrate
  std::map<std::string, double> weight_scales_;  ///< of the weights
  std::map<std::string, double> layer_errors_;
};

/// The block's output error with SmoothQuant, as a share of the error without. The errors of all layers become
/// properties of the test.
double error_ratio(double norm, double weight) {
  std::mt19937 random(1);
  const TransformerBlock before = tools::planted_block(random, kSizes, {norm, weight});
  const Matrix inputs = tools::random_matrix(random, kTokens, kSizes.hidden, 1);
  Network plain(before);
  const Matrix exact = plain.calibrate(inputs);
  const TransformerBlock after = tools::smoothed_block(before, plain.exact_inputs(), 0.5);
  Network smooth(after);
  EXPECT_LT(relative_error(smooth.calibrate(inputs), exact), 1e-6);
  const double error = relative_error(run_block(kSizes, inputs, plain), exact);
  const double smooth_error = relative_error(run_block(kSizes, inputs, smooth), exact);
  EXPECT_EQ(plain.layer_errors().size(), 7);
  for (const auto& [layer, layer_error] : plain.layer_errors()) {
    const double smooth_layer_error = smooth.layer_errors().at(layer);
    const bool reads_norm = !layer.ends_with("o_proj") && !layer.ends_with("down_proj");
    EXPECT_LT(smooth_layer_error, reads_norm ? layer_error / 3 : kErrorWithoutOutliers) << layer;
    ::testing::Test::RecordProperty(layer, fmt::format("{:.4f} without, {:.4f} with", layer_error, smooth_layer_error));
  }
  ::testing::Test::RecordProperty("block", fmt::format("{:.4f} without, {:.4f} with", error, smooth_error));
  return smooth_error / error;
}

TEST(PlantedOutliers, SmoothQuantCutsTheErrorOfLargeOutliersToATenth) { EXPECT_LE(error_ratio(100, 10), 0.1); }

TEST(PlantedOutliers, SmoothQuantCutsTheErrorOfSmallerOutliersToThreeTenths) {
  EXPECT_LE(error_ratio(20, std::sqrt(20.0)), 0.3);
}

}  // namespace
}  // namespace cubit::calibrate
