// The output error of a transformer block in INT8, with and without SmoothQuant, where outlier channels were planted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cubit/smooth.hpp>
#include <map>
#include <random>
#include <string>

#include "tests/calibrate/tensors.hpp"

namespace cubit::calibrate {
namespace {

constexpr std::size_t kHidden = 1024;
constexpr std::size_t kInner = 2048;
constexpr std::size_t kHeads = 16;
constexpr std::size_t kTokens = 24;
constexpr std::size_t kOutliers[] = {37, 187, 337, 487, 637, 787};
constexpr float kLargestCode = 127;
constexpr double kErrorWithoutOutliers = 0.06;  ///< more than INT8 loses in the layers that no norm feeds
const std::string kLayer = "model.layers.0.";
const std::string kNorm1 = kLayer + "input_layernorm";
const std::string kNorm2 = kLayer + "post_attention_layernorm";

/// Row-major: tokens of channels, or a weight [out, in]. A norm's weight has one row.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<float> values;

  const float* row(std::size_t i) const { return values.data() + i * columns; }
  float* row(std::size_t i) { return values.data() + i * columns; }
  std::vector<std::int64_t> shape() const {
    return {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
  }
  MutableTensor bytes() { return {"F32", std::as_writable_bytes(std::span(values))}; }
};
using Checkpoint = std::map<std::string, Matrix>;

Matrix random_matrix(std::mt19937& random, std::size_t rows, std::size_t columns, double deviation) {
  std::normal_distribution<double> normal(0, deviation);
  Matrix made{rows, columns, std::vector<float>(rows * columns)};
  for (float& value : made.values) value = static_cast<float>(normal(random));
  return made;
}

/// A block whose norms multiply the outlier channels by `norm`, and whose layers divide these channels by `weight`.
Checkpoint planted_block(std::mt19937& random, float norm, float weight) {
  Checkpoint made;
  const auto add = [&](const std::string& name, std::size_t out, std::size_t in, bool reads_norm) {
    Matrix& matrix = made[kLayer + name] = random_matrix(random, out, in, 1 / std::sqrt(static_cast<double>(in)));
    for (std::size_t row = 0; row < out && reads_norm; ++row)
      for (const std::size_t channel : kOutliers) matrix.row(row)[channel] /= weight;
  };
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"})
    add(name, kHidden, kHidden, true);
  add("self_attn.o_proj", kHidden, kHidden, false);
  for (const char* name : {"mlp.gate_proj", "mlp.up_proj"}) add(name, kInner, kHidden, true);
  add("mlp.down_proj", kHidden, kInner, false);
  for (const std::string& name : {kNorm1, kNorm2}) {
    Matrix& matrix = made[name] = {1, kHidden, std::vector<float>(kHidden, 1)};
    for (const std::size_t channel : kOutliers) matrix.values[channel] *= norm;
  }
  return made;
}

Matrix product(const Matrix& inputs, const Matrix& weight) {
  Matrix made{inputs.rows, weight.rows, std::vector<float>(inputs.rows * weight.rows)};
  for (std::size_t out = 0; out < weight.rows; ++out)
    for (std::size_t token = 0; token < inputs.rows; ++token) {
      double sum = 0;
      for (std::size_t i = 0; i < inputs.columns; ++i) sum += double{inputs.row(token)[i]} * weight.row(out)[i];
      made.row(token)[out] = static_cast<float>(sum);
    }
  return made;
}

Matrix quantised(Matrix matrix, double scale) {
  const auto step = static_cast<float>(scale);
  for (float& value : matrix.values)
    value = std::clamp(std::nearbyint(value / step), -kLargestCode, kLargestCode) * step;
  return matrix;
}

double relative_error(const Matrix& got, const Matrix& exact) {
  double error = 0;
  double square = 0;
  for (std::size_t i = 0; i < exact.values.size(); ++i) {
    error += std::pow(double{got.values[i]} - exact.values[i], 2);
    square += std::pow(double{exact.values[i]}, 2);
  }
  return std::sqrt(error / square);
}

/// Computes the block in fp32, or in INT8 once calibrate was called: one scale for each weight and each input.
class Network {
 public:
  explicit Network(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  /// Computes the block in fp32, and keeps the inputs of all layers for the scales of INT8.
  Matrix calibrate(const Matrix& inputs) {
    const Matrix exact = run(inputs);
    for (const auto& [layer, input] : inputs_) {
      scales_[layer] = scale_of(input);
      weight_scales_[layer] = scale_of(checkpoint_.at(layer));
    }
    return exact;
  }
  Matrix run(const Matrix& inputs) {
    const Matrix hidden = sum(inputs, linear("self_attn.o_proj", attention(norm(kNorm1, inputs))));
    const Matrix normed = norm(kNorm2, hidden);
    Matrix inner = linear("mlp.gate_proj", normed);
    const Matrix up = linear("mlp.up_proj", normed);
    for (std::size_t i = 0; i < inner.values.size(); ++i)
      inner.values[i] *= up.values[i] / (1 + std::exp(-inner.values[i]));
    return sum(hidden, linear("mlp.down_proj", inner));
  }
  const Matrix& input(const std::string& layer) const { return inputs_.at(layer); }    ///< in fp32
  const std::map<std::string, double>& layer_errors() const { return layer_errors_; }  ///< of INT8

 private:
  static double scale_of(const Matrix& matrix) {
    Statistics statistics;
    statistics.add(tensor_of("F32", matrix.shape(), matrix.values));
    return choose_range(statistics, {}).scale;
  }
  static Matrix sum(Matrix a, const Matrix& b) {
    for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
    return a;
  }
  Matrix norm(const std::string& name, Matrix rows) const {
    for (std::size_t token = 0; token < rows.rows; ++token) {
      double square = 0;
      for (std::size_t i = 0; i < kHidden; ++i) square += std::pow(double{rows.row(token)[i]}, 2);
      const auto factor = static_cast<float>(1 / std::sqrt(square / kHidden + 1e-6));
      for (std::size_t i = 0; i < kHidden; ++i) rows.row(token)[i] *= factor * checkpoint_.at(name).values[i];
    }
    return rows;
  }
  Matrix linear(const std::string& name, const Matrix& inputs) {
    const std::string layer = kLayer + name;
    const Matrix& weight = checkpoint_.at(layer);
    Matrix exact = product(inputs, weight);
    if (!scales_.contains(layer)) {
      inputs_[layer] = inputs;
      return exact;
    }
    Matrix got = product(quantised(inputs, scales_.at(layer)), quantised(weight, weight_scales_.at(layer)));
    layer_errors_[layer] = relative_error(got, exact);
    return got;
  }
  Matrix attention(const Matrix& normed) {
    constexpr std::size_t kHead = kHidden / kHeads;
    const Matrix query = linear("self_attn.q_proj", normed);
    const Matrix key = linear("self_attn.k_proj", normed);
    const Matrix value = linear("self_attn.v_proj", normed);
    Matrix made{kTokens, kHidden, std::vector<float>(kTokens * kHidden)};
    for (std::size_t first = 0; first < kHidden; first += kHead)
      for (std::size_t token = 0; token < kTokens; ++token) {
        std::vector<double> scores(token + 1);
        for (std::size_t other = 0; other <= token; ++other)
          for (std::size_t i = first; i < first + kHead; ++i)
            scores[other] += double{query.row(token)[i]} * key.row(other)[i] / std::sqrt(double{kHead});
        const double largest = *std::max_element(scores.begin(), scores.end());
        double total = 0;
        for (double& score : scores) total += score = std::exp(score - largest);
        for (std::size_t other = 0; other <= token; ++other)
          for (std::size_t i = first; i < first + kHead; ++i)
            made.row(token)[i] += static_cast<float>(scores[other] / total * value.row(other)[i]);
      }
    return made;
  }

  const Checkpoint& checkpoint_;
  std::map<std::string, Matrix> inputs_;
  std::map<std::string, double> scales_;         ///< of the inputs; empty before calibrate
  std::map<std::string, double> weight_scales_;  ///< of the weights
  std::map<std::string, double> layer_errors_;
};

/// Folds the factors of alpha = 0.5 into a copy of the block.
Checkpoint smoothed(const Checkpoint& before, const Network& network) {
  std::vector<TensorName> names;
  for (const auto& [name, matrix] : before) names.push_back({name + ".weight", matrix.rows == 1 ? 1U : 2U});
  Checkpoint after = before;
  for (const SmoothGroup& group : Mapping::of_model_type("llama").plan(names).groups) {
    const Matrix& inputs = network.input(group.layers.front());
    Statistics statistics;
    statistics.add(tensor_of("F32", inputs.shape(), inputs.values));
    SmoothSearch search(statistics.channel_magnitudes(), inputs.values);
    for (const std::string& layer : group.layers)
      search.add_layer(tensor_of("F32", before.at(layer).shape(), before.at(layer).values), false);
    std::vector<float> factors = search.with_alpha(0.5).factors;
    fold_norm(after.at(group.norm).bytes(), {"F32", {}}, false, factors);
    for (const std::string& layer : group.layers) fold_weight(after.at(layer).bytes(), 0, kHidden, false, factors);
  }
  return after;
}

/// The block's output error with SmoothQuant, as a share of the error without. The errors of all layers become
/// properties of the test.
double error_ratio(float norm, float weight) {
  std::mt19937 random(1);
  const Checkpoint before = planted_block(random, norm, weight);
  const Matrix inputs = random_matrix(random, kTokens, kHidden, 1);
  Network plain(before);
  const Matrix exact = plain.calibrate(inputs);
  const Checkpoint after = smoothed(before, plain);
  Network smooth(after);
  EXPECT_LT(relative_error(smooth.calibrate(inputs), exact), 1e-6);
  const double error = relative_error(plain.run(inputs), exact);
  const double smooth_error = relative_error(smooth.run(inputs), exact);
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
  EXPECT_LE(error_ratio(20, std::sqrt(20.0F)), 0.3);
}

}  // namespace
}  // namespace cubit::calibrate
