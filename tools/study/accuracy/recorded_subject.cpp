#include "tools/study/accuracy/recorded_subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cubit/quantised_weights.hpp>
#include <span>

#include "files/text/error.hpp"
#include "tools/checkpoint/smoothing_mapping.hpp"

namespace cubit::tools {
namespace {

Matrix transposed(const Matrix& matrix) {
  Matrix made{matrix.columns, matrix.rows, std::vector<float>(matrix.values.size())};
  for (std::size_t row = 0; row < matrix.rows; ++row)
    for (std::size_t column = 0; column < matrix.columns; ++column) made.row(column)[row] = matrix.row(row)[column];
  return made;
}

const HeaderEntry& weight_of(const CheckpointReader& checkpoint, const std::string& layer) {
  for (const auto& file : checkpoint.files())
    for (const HeaderEntry& tensor : file->tensors())
      if (tensor.name == layer + ".weight" && tensor.shape.size() == 2) return tensor;
  throw BadInput("layer " + layer, "has recorded inputs, but the checkpoint has no weight of it with 2 dimensions",
                 "give the checkpoint of these activations, or --layers of linear layers");
}

Matrix read_matrix(const CheckpointReader& checkpoint, const HeaderEntry& tensor) {
  std::vector<std::byte> bytes(bytes_of(tensor));
  checkpoint.read(tensor, 0, bytes);
  return {static_cast<std::size_t>(tensor.shape[0]), static_cast<std::size_t>(tensor.shape[1]),
          calibrate::float_values({tensor.type, tensor.shape, bytes})};
}

/// Multiplies column j by factors[j], or divides it.
Matrix scaled(Matrix matrix, std::span<const float> factors, bool divides) {
  for (std::size_t row = 0; row < matrix.rows && !factors.empty(); ++row)
    for (std::size_t i = 0; i < matrix.columns; ++i) matrix.row(row)[i] *= divides ? 1 / factors[i] : factors[i];
  return matrix;
}

std::vector<calibrate::SmoothGroup> groups_of(const CheckpointReader& checkpoint, const calibrate::Mapping& mapping) {
  std::vector<calibrate::TensorName> names;
  for (const auto& file : checkpoint.files())
    for (const HeaderEntry& tensor : file->tensors()) names.push_back({tensor.name, tensor.shape.size()});
  return mapping.plan(names).groups;
}

}  // namespace

RecordedSubject::RecordedSubject(const RecordedOptions& options, std::size_t tokens, std::size_t calibration_tokens,
                                 const KernelRunner& runner)
    : options_(options), tokens_(tokens), calibration_tokens_(std::max(calibration_tokens, tokens)), kernels_(runner) {
  const CheckpointReader checkpoint(options.checkpoint);
  if (options.smooths || !options.mapping.empty() || !options.architecture.empty()) {
    mapping_ = smoothing_mapping(checkpoint, options.mapping, options.architecture);
    groups_ = groups_of(checkpoint, *mapping_);
  } else {
    mapping_ = known_mapping(checkpoint, options.mapping);
  }
  const std::vector<std::string> files = calibrate::activation_files(options.activations);
  calibrate::Collector collector({.histogram = false, .moments = false}, 0, options.layers);
  for (const std::string& file : files) collector.check_file(file);
  for (const std::string& file : files) collector.add_file(file);
  for (const calibrate::NamedStatistics& recorded : collector.layers())
    if (recorded.statistics.tokens() > 0) read(checkpoint, recorded, files);
  if (layers_.empty())
    throw BadInput(options.activations, "has no tokens of these layers",
                   "give recorded activations, and --layers that match");
}

void RecordedSubject::read(const CheckpointReader& checkpoint, const calibrate::NamedStatistics& recorded,
                           const std::vector<std::string>& files) {
  const calibrate::Statistics& statistics = recorded.statistics;
  if (statistics.non_finite() > 0)
    throw BadInput(fmt::format("layer {}, {} values", recorded.layer, statistics.non_finite()), "are not finite",
                   "record activations again without NaNs and infinities");
  Matrix weight = read_matrix(checkpoint, weight_of(checkpoint, recorded.layer));
  if (mapping_ && mapping_->stores_input_first(recorded.layer)) weight = transposed(weight);
  const std::size_t channels = statistics.channels();
  if (weight.columns != channels)
    throw BadInput(fmt::format("layer {}, inputs of {} channels", recorded.layer, channels),
                   fmt::format("do not fit its weight of {} input channels", weight.columns),
                   "give the checkpoint of these activations");
  std::vector<float> sample = calibrate::sample_tokens(files, recorded.layer, calibration_tokens_);
  const std::size_t count = sample.size() / channels;
  layers_[recorded.layer] = {std::move(weight), {count, channels, std::move(sample)}, statistics.channel_magnitudes()};
}

/// The factors of SmoothQuant, by the recorded layers of the group; empty if there are none.
std::vector<float> RecordedSubject::factors(const calibrate::SmoothGroup& group, double alpha) const {
  std::optional<calibrate::SmoothSearch> search;
  for (const std::string& name : group.layers) {
    const auto found = layers_.find(name);
    if (found == layers_.end()) continue;
    const Layer& layer = found->second;
    if (!search) search.emplace(layer.magnitudes, layer.sample.values);
    const std::vector<std::int64_t> shape = layer.weight.shape();
    search->add_layer({"F32", shape, std::as_bytes(std::span(layer.weight.values))}, false);
  }
  return search ? search->with_alpha(alpha).factors : std::vector<float>{};
}

void RecordedSubject::smooth(std::optional<double> alpha) {
  std::map<std::string, std::vector<float>> by_layer;
  for (const calibrate::SmoothGroup& group : groups_) {
    const std::vector<float> made = alpha ? factors(group, *alpha) : std::vector<float>{};
    for (const std::string& layer : group.layers) by_layer[layer] = made;
  }
  for (const auto& [name, layer] : layers_) {
    const std::vector<float>& made = by_layer[name];
    const Matrix weight = scaled(layer.weight, made, false);
    const Matrix sample = scaled(layer.sample, made, true);
    statistics_.insert_or_assign(name, statistics_of(sample));
    smoothed_.insert_or_assign(
        name, Smoothed{compared(sample), {quantised_weight(weight, false), quantised_weight(weight, true)}});
  }
}

Matrix RecordedSubject::compared(const Matrix& sample) const {
  const std::size_t count = std::min(tokens_, sample.rows);
  Matrix made{count, sample.columns, {}};
  for (std::size_t i = 0; i < count; ++i) {
    const float* row = sample.row(i * sample.rows / count);
    made.values.insert(made.values.end(), row, row + sample.columns);
  }
  return made;
}

AccuracyErrors RecordedSubject::measure(const InputChoice& input, bool per_channel) const {
  std::map<std::string, float> scales;
  if (input.scale == InputScale::static_tensor) scales = static_scales(statistics_, input.method);
  AccuracyErrors errors;
  double squares = 0;
  for (const auto& [name, layer] : smoothed_) {
    const Int8Weight& weight = layer.weights[per_channel ? 1 : 0];
    const auto scale = scales.find(name);
    const auto given = scale == scales.end() ? std::nullopt : std::optional(scale->second);
    const Int8Rows rows =
        kernels_.quantize(layer.inputs, input_scale(input.scale, layer.inputs, given), "the input of " + name);
    const Matrix got = kernels_.multiply(rows, weight, "the output of " + name);
    const double error = relative_error(got, product(layer.inputs, weight.exact));
    errors.layers[name] = error;
    squares += error * error;
  }
  errors.error = std::sqrt(squares / static_cast<double>(smoothed_.size()));
  return errors;
}

std::vector<std::string> RecordedSubject::layer_names() const {
  std::vector<std::string> names;
  for (const auto& [name, layer] : layers_) names.push_back(name);
  return names;
}

nlohmann::ordered_json RecordedSubject::json() const {
  nlohmann::ordered_json shapes;
  for (const auto& [name, layer] : layers_) shapes[name] = {layer.weight.rows, layer.weight.columns};
  return {{"checkpoint", options_.checkpoint},
          {"activations", options_.activations},
          {"tokens", tokens_},
          {"calibration_tokens", calibration_tokens_},
          {"weights", shapes}};
}

}  // namespace cubit::tools
