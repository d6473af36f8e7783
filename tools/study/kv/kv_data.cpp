#include "tools/study/kv/kv_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cubit/quantised_weights.hpp>
#include <span>

#include "base/parallel.hpp"
#include "files/safetensors/safetensors.hpp"
#include "files/text/error.hpp"

namespace cubit::tools {
namespace {

constexpr std::size_t kKeyOutlierChannels = 4;

Matrix rounded_to_halves(const Matrix& matrix, const std::string& what) {
  const std::vector<std::uint16_t> halves = half_values(matrix, what);
  return matrix_of_halves(matrix.rows, matrix.columns, std::as_bytes(std::span(halves)), what);
}

const TensorView& tensor_of(const SafetensorsFile& file, const std::string& path, const std::string& name,
                            std::size_t rank) {
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    if (tensor.shape.size() == rank) return tensor;
    throw BadInput(fmt::format("{}, tensor {} with {} dimensions", path, name, tensor.shape.size()),
                   "has another number of dimensions",
                   "give query [batch, heads, head_dim], key and value [batch, tokens, kv_heads, head_dim]");
  }
  throw BadInput(path, "has no tensor " + name, "give a file with query, key and value");
}

Matrix rows_of(const TensorView& tensor, const std::string& path) {
  Matrix made{1, static_cast<std::size_t>(tensor.shape.back()), {}};
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) made.rows *= static_cast<std::size_t>(tensor.shape[i]);
  made.values = calibrate::float_values({tensor.type, tensor.shape, tensor.data});
  for (const float value : made.values)
    if (!std::isfinite(value))
      throw BadInput(fmt::format("{}, tensor {}", path, tensor.name), "has a value that is not finite",
                     "record it again without NaNs and infinities");
  return rounded_to_halves(made, "tensor " + tensor.name);
}

double magnitude(const Matrix& rows, std::size_t first, std::size_t count) {
  double largest = 0;
  for (std::size_t row = first; row < first + count; ++row)
    for (std::size_t i = 0; i < rows.columns; ++i) largest = std::max(largest, std::abs(double{rows.row(row)[i]}));
  return largest;
}

float quantised(float value, double scale, double largest_code) {
  return static_cast<float>(std::clamp(std::nearbyint(value / scale), -largest_code, largest_code) * scale);
}

void attend(const KvData& data, std::size_t item, Matrix& made) {
  const KvSizes& sizes = data.sizes;
  const std::size_t heads = sizes.kv_heads * sizes.heads_per_kv;
  const std::size_t sequence = item / heads;
  const std::size_t head = item % heads / sizes.heads_per_kv;
  const auto row = [&](std::size_t token) { return (sequence * sizes.tokens + token) * sizes.kv_heads + head; };
  std::vector<double> scores(sizes.tokens);
  for (std::size_t token = 0; token < sizes.tokens; ++token) {
    for (std::size_t i = 0; i < sizes.head_dim; ++i)
      scores[token] += double{data.query.row(item)[i]} * data.key.row(row(token))[i];
    scores[token] /= std::sqrt(static_cast<double>(sizes.head_dim));
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - largest);
  std::vector<double> output(data.value.columns);
  for (std::size_t token = 0; token < sizes.tokens; ++token)
    for (std::size_t i = 0; i < output.size(); ++i) output[i] += scores[token] / total * data.value.row(row(token))[i];
  std::copy(output.begin(), output.end(), made.row(item));
}

}  // namespace

KvData made_up_data(const KvSizes& sizes) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(sizes.seed));
  const std::size_t rows = sizes.batch * sizes.tokens * sizes.kv_heads;
  const Matrix query = random_matrix(random, sizes.batch * sizes.kv_heads * sizes.heads_per_kv, sizes.head_dim, 1);
  Matrix key = random_matrix(random, rows, sizes.head_dim, 1);
  const Matrix value = random_matrix(random, rows, sizes.head_dim, 1);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < kKeyOutlierChannels; ++i) {
      // The places differ between KV heads: channels 16, 48, 80 and 112 of 128 in the first head.
      const std::size_t channel = (2 * i + 1) * sizes.head_dim / (2 * kKeyOutlierChannels) + 7 * (row % sizes.kv_heads);
      key.row(row)[channel % sizes.head_dim] *= static_cast<float>(sizes.outliers);
    }
  return {sizes, rounded_to_halves(query, "the queries"), rounded_to_halves(key, "the keys"),
          rounded_to_halves(value, "the values")};
}

KvData read_data(const std::string& path) {
  const SafetensorsFile file(path);
  const TensorView& query = tensor_of(file, path, "query", 3);
  const TensorView& key = tensor_of(file, path, "key", 4);
  const TensorView& value = tensor_of(file, path, "value", 4);
  const auto size = [](const TensorView& tensor, std::size_t i) { return static_cast<std::size_t>(tensor.shape[i]); };
  KvSizes sizes = {size(key, 0), size(key, 1), size(key, 2), 0, size(key, 3), 0, 0};
  const bool fits = key.shape == value.shape && size(query, 0) == sizes.batch && size(query, 2) == sizes.head_dim &&
                    sizes.kv_heads > 0 && size(query, 1) % sizes.kv_heads == 0;
  if (!fits || query.data.empty() || key.data.empty())
    throw BadInput(path, "has tensors query, key and value whose shapes do not fit, or that are empty",
                   "give query [batch, heads, head_dim], key and value [batch, tokens, kv_heads, head_dim]");
  sizes.heads_per_kv = size(query, 1) / sizes.kv_heads;
  return {sizes, rows_of(query, path), rows_of(key, path), rows_of(value, path)};
}

Matrix attention(const KvData& data) {
  Matrix made{data.query.rows, data.value.columns, std::vector<float>(data.query.rows * data.value.columns)};
  parallel_for(static_cast<std::int64_t>(made.rows),
               [&](std::int64_t item) { attend(data, static_cast<std::size_t>(item), made); });
  return made;
}

std::vector<float> given_scales(const KvFormat& format, const KvSizes& sizes, const Matrix& rows) {
  const std::size_t shared = format.scales == "tensor" ? rows.rows : sizes.kv_heads;
  std::vector<float> scales;
  for (std::size_t first = 0; first < rows.rows; first += shared) {
    const double scale = magnitude(rows, first, shared) / format.largest_code();
    scales.push_back(scale > 0 ? static_cast<float>(scale) : 1);
  }
  return scales;
}

KvData simulated(const KvFormat& format, const KvData& data) {
  KvData made = data;
  for (std::size_t head = 0; head < data.sizes.kv_heads; ++head)
    for (std::size_t i = 0; i < data.key.columns; ++i) {
      double largest = 0;
      for (std::size_t row = head; row < data.key.rows; row += data.sizes.kv_heads)
        largest = std::max(largest, std::abs(double{data.key.row(row)[i]}));
      for (std::size_t row = head; row < data.key.rows && largest > 0; row += data.sizes.kv_heads)
        made.key.row(row)[i] = quantised(data.key.row(row)[i], largest / format.largest_code(), format.largest_code());
    }
  for (std::size_t row = 0; row < data.value.rows; ++row) {
    const double largest = magnitude(data.value, row, 1);
    for (std::size_t i = 0; i < data.value.columns && largest > 0; ++i)
      made.value.row(row)[i] =
          quantised(data.value.row(row)[i], largest / format.largest_code(), format.largest_code());
  }
  return made;
}

double simulated_bytes(const KvFormat& format, const KvSizes& sizes) {
  constexpr double kScaleBytes = 4;
  const double bits = format.kv == "int4" ? 4 : 8;
  const auto channels = static_cast<double>(sizes.head_dim * sizes.kv_heads);
  const double key_scales = channels * kScaleBytes / static_cast<double>(sizes.batch * sizes.tokens);
  return 2 * channels * bits / 8 + key_scales + kScaleBytes * static_cast<double>(sizes.kv_heads);
}

}  // namespace cubit::tools
