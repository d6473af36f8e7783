#include "tools/study/accuracy/transformer_block.hpp"

#include <algorithm>
#include <cmath>
#include <cubit/smooth.hpp>
#include <span>
#include <utility>

namespace cubit::tools {
namespace {

constexpr const char* kLayer = "model.layers.0.";

bool reads_norm(const std::string& layer) { return !layer.ends_with("o_proj") && !layer.ends_with("down_proj"); }

std::vector<std::size_t> outlier_channels(std::size_t hidden) {
  constexpr std::size_t kFirst = 37;
  constexpr std::size_t kStep = 150;
  constexpr std::size_t kHidden = 1024;
  std::vector<std::size_t> channels;
  for (std::size_t i = 0; i < kOutlierChannels; ++i) channels.push_back((kFirst + kStep * i) * hidden / kHidden);
  return channels;
}

std::pair<std::size_t, std::size_t> shape_of(const std::string& layer, const BlockSizes& sizes) {
  if (layer.ends_with("down_proj")) return {sizes.hidden, sizes.inner};
  return {layer.starts_with("mlp.") ? sizes.inner : sizes.hidden, sizes.hidden};
}

/// One head of causal attention: adds its output for all tokens to the head's channels of `made`.
void attend(const Matrix& query, const Matrix& key, const Matrix& value, std::size_t first, std::size_t channels,
            Matrix& made) {
  for (std::size_t token = 0; token < query.rows; ++token) {
    std::vector<double> scores(token + 1);
    for (std::size_t other = 0; other <= token; ++other)
      for (std::size_t i = first; i < first + channels; ++i)
        scores[other] += double{query.row(token)[i]} * key.row(other)[i] / std::sqrt(static_cast<double>(channels));
    const double largest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - largest);
    for (std::size_t i = first; i < first + channels; ++i) {
      double output = 0;
      for (std::size_t other = 0; other <= token; ++other) output += scores[other] / total * value.row(other)[i];
      made.row(token)[i] = static_cast<float>(output);
    }
  }
}

Matrix attention(const BlockSizes& sizes, const std::vector<Matrix>& projections) {
  const Matrix& query = projections[0];
  Matrix made{query.rows, sizes.hidden, std::vector<float>(query.rows * sizes.hidden)};
  const std::size_t channels = sizes.hidden / sizes.heads;
  for (std::size_t first = 0; first < sizes.hidden; first += channels)
    attend(query, projections[1], projections[2], first, channels, made);
  return made;
}

calibrate::Tensor tensor_of(const std::vector<std::int64_t>& shape, const Matrix& matrix) {
  return {"F32", shape, std::as_bytes(std::span(matrix.values))};
}

calibrate::MutableTensor mutable_tensor(Matrix& matrix) {
  return {"F32", std::as_writable_bytes(std::span(matrix.values))};
}

}  // namespace

std::string block_layer(std::string_view name) { return kLayer + std::string(name); }

const std::vector<std::string>& block_layer_names() {
  static const std::vector<std::string> names = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                 "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                                 "mlp.down_proj"};
  return names;
}

TransformerBlock planted_block(std::mt19937& random, const BlockSizes& sizes, const PlantedOutliers& outliers) {
  TransformerBlock block{sizes, {}};
  const std::vector<std::size_t> channels = outlier_channels(sizes.hidden);
  for (const std::string& layer : block_layer_names()) {
    const auto [out, in] = shape_of(layer, sizes);
    Matrix& matrix = block.weights[block_layer(layer)] =
        random_matrix(random, out, in, 1 / std::sqrt(static_cast<double>(in)));
    for (std::size_t row = 0; row < out && reads_norm(layer); ++row)
      for (const std::size_t channel : channels) matrix.row(row)[channel] /= static_cast<float>(outliers.weight);
  }
  for (const char* name : {kInputNorm, kOutputNorm}) {
    Matrix& matrix = block.weights[name] = {1, sizes.hidden, std::vector<float>(sizes.hidden, 1)};
    for (const std::size_t channel : channels) matrix.values[channel] *= static_cast<float>(outliers.norm);
  }
  return block;
}

Matrix run_block(const BlockSizes& sizes, const Matrix& inputs, BlockSteps& steps) {
  const std::vector<Matrix> projections = steps.norm_linears(
      kInputNorm, inputs,
      {block_layer("self_attn.q_proj"), block_layer("self_attn.k_proj"), block_layer("self_attn.v_proj")});
  const Matrix hidden = sum(inputs, steps.linear(block_layer("self_attn.o_proj"), attention(sizes, projections)));
  const std::vector<Matrix> inner =
      steps.norm_linears(kOutputNorm, hidden, {block_layer("mlp.gate_proj"), block_layer("mlp.up_proj")});
  return sum(hidden, steps.gated_linear(block_layer("mlp.down_proj"), inner[0], inner[1]));
}

Matrix rms_norm(Matrix rows, const Matrix& weight) {
  for (std::size_t token = 0; token < rows.rows; ++token) {
    double square = 0;
    for (std::size_t i = 0; i < rows.columns; ++i) square += std::pow(double{rows.row(token)[i]}, 2);
    const auto factor = static_cast<float>(1 / std::sqrt(square / static_cast<double>(rows.columns) + kNormEpsilon));
    for (std::size_t i = 0; i < rows.columns; ++i) rows.row(token)[i] *= factor * weight.values[i];
  }
  return rows;
}

Matrix gated(const Matrix& gate, const Matrix& up) {
  Matrix made = gate;
  for (std::size_t i = 0; i < made.values.size(); ++i) made.values[i] *= up.values[i] / (1 + std::exp(-gate.values[i]));
  return made;
}

std::vector<Matrix> HostSteps::norm_linears(const std::string& norm, const Matrix& rows,
                                            const std::vector<std::string>& layers) {
  const Matrix normed = rms_norm(rows, weight(norm));
  std::vector<Matrix> outputs;
  for (const std::string& layer : layers) outputs.push_back(linear(layer, normed));
  return outputs;
}

Matrix HostSteps::linear(const std::string& layer, const Matrix& rows) {
  inputs_[layer] = rows;
  return multiply(layer, rows);
}

Matrix HostSteps::gated_linear(const std::string& layer, const Matrix& gate, const Matrix& up) {
  return linear(layer, gated(gate, up));
}

Matrix HostSteps::multiply(const std::string& layer, const Matrix& input) { return product(input, weight(layer)); }

TransformerBlock smoothed_block(const TransformerBlock& block, const std::map<std::string, Matrix>& inputs,
                                double alpha) {
  std::vector<calibrate::TensorName> names;
  for (const auto& [name, matrix] : block.weights) names.push_back({name + ".weight", matrix.rows == 1 ? 1U : 2U});
  TransformerBlock after = block;
  for (const calibrate::SmoothGroup& group : calibrate::Mapping::of_model_type("llama").plan(names).groups) {
    const Matrix& input = inputs.at(group.layers.front());
    calibrate::Statistics statistics({.histogram = false, .moments = false});
    statistics.add(tensor_of(input.shape(), input));
    calibrate::SmoothSearch search(statistics.channel_magnitudes(), input.values);
    for (const std::string& layer : group.layers) {
      const Matrix& weight = block.weights.at(layer);
      search.add_layer(tensor_of(weight.shape(), weight), false);
    }
    std::vector<float> factors = search.with_alpha(alpha).factors;
    calibrate::fold_norm(mutable_tensor(after.weights.at(group.norm)), {"F32", {}}, false, factors);
    for (const std::string& layer : group.layers)
      calibrate::fold_weight(mutable_tensor(after.weights.at(layer)), 0, input.columns, false, factors);
  }
  return after;
}

}  // namespace cubit::tools
