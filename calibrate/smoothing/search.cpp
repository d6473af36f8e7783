// Chooses the factors of SmoothQuant by the output error of INT8 on a sample of tokens and output channels.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cubit/smooth.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "calibrate/errors.hpp"
#include "calibrate/smoothing/int8.hpp"
#include "calibrate/statistics/values.hpp"
#include "files/safetensors/reader.hpp"

namespace cubit::calibrate {
namespace {

constexpr double kLeastFactor = 1e-5;  ///< the factors of channels that are almost always zero stay bounded
constexpr double kLargestFactor = 1e5;
constexpr int kGridSteps = 10;
constexpr double kLeastStep = 0.0125;
constexpr std::int64_t kRowsPerThread = 64;
constexpr std::size_t kDotLanes = 16;  ///< partial sums of a dot product, which the compiler keeps in vector registers

float dot(const float* a, const float* b, std::size_t count) {
  std::array<float, kDotLanes> sums{};
  std::size_t i = 0;
  for (; i + kDotLanes <= count; i += kDotLanes)
    for (std::size_t lane = 0; lane < kDotLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  float sum = 0;
  for (const float one : sums) sum += one;
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// `count` of `all` places in ascending order. The choice is pseudo-random, so a pattern of the places cannot hide some
/// of them as a stride would, and it is the same in every run.
std::vector<std::size_t> sampled_places(std::size_t all, std::size_t count) {
  std::mt19937_64 random;  // the standard fixes its numbers
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < all && places.size() < count; ++i)
    if (random() % (all - i) < count - places.size()) places.push_back(i);
  return places;
}

}  // namespace

struct SmoothSearch::State {
  std::vector<double> inputs;
  std::vector<double> weights;
  std::vector<float> tokens;  ///< rows of channels
  std::vector<float> rows;    ///< sampled output channels, rows of input channels

  std::size_t channels() const { return inputs.size(); }
  std::size_t count_rows() const { return rows.size() / channels(); }
  std::size_t count_tokens() const { return tokens.size() / channels(); }
  std::vector<float> factors(double alpha) const;
  double error(std::span<const float> made) const;
  double row_error(std::size_t row, std::span<const float> made, std::span<const float> quantised,
                   double& square) const;
};

std::vector<float> SmoothSearch::State::factors(double alpha) const {
  std::vector<float> made(channels(), 1);
  for (std::size_t i = 0; i < made.size(); ++i)
    if (inputs[i] > 0 && weights[i] > 0)
      made[i] = static_cast<float>(
          std::clamp(std::pow(inputs[i], alpha) / std::pow(weights[i], 1 - alpha), kLeastFactor, kLargestFactor));
  return made;
}

/// The squared error of one output channel over all tokens; `square` is the sum of the squared outputs.
double SmoothSearch::State::row_error(std::size_t row, std::span<const float> made, std::span<const float> quantised,
                                      double& square) const {
  const float* weight = rows.data() + row * channels();
  float largest = 0;
  for (std::size_t i = 0; i < channels(); ++i) largest = std::max(largest, std::abs(weight[i] * made[i]));
  std::vector<float> rounded(channels());
  quantise_smoothed(weight, made, largest, rounded.data());
  double error = 0;
  for (std::size_t token = 0; token < count_tokens(); ++token) {
    const float exact = dot(tokens.data() + token * channels(), weight, channels());
    const double difference = dot(quantised.data() + token * channels(), rounded.data(), channels()) - exact;
    error += difference * difference;
    square += double{exact} * exact;
  }
  return error;
}

double SmoothSearch::State::error(std::span<const float> made) const {
  std::vector<float> inverse(channels());
  double largest = 0;
  for (std::size_t i = 0; i < channels(); ++i) {
    inverse[i] = 1 / made[i];
    largest = std::max(largest, inputs[i] / made[i]);
  }
  std::vector<float> quantised(tokens.size());
  for (std::size_t token = 0; token < count_tokens(); ++token)
    quantise_smoothed(tokens.data() + token * channels(), inverse, static_cast<float>(largest),
                      quantised.data() + token * channels());
  std::vector<double> errors(count_rows());
  std::vector<double> squares(count_rows());
  parallel_for(
      static_cast<std::int64_t>(count_rows()),
      [&](std::int64_t i) {
        const auto row = static_cast<std::size_t>(i);
        errors[row] = row_error(row, made, quantised, squares[row]);
      },
      kRowsPerThread);
  double error = 0;  // summed in order, so the result does not depend on the threads
  double square = 0;
  for (std::size_t row = 0; row < errors.size(); ++row) {
    error += errors[row];
    square += squares[row];
  }
  return square > 0 ? error / square : 0;
}

SmoothSearch::SmoothSearch(std::vector<double> inputs, std::vector<float> tokens) : state_(std::make_unique<State>()) {
  at_surface([&] {
    if (inputs.empty() || tokens.empty()) refuse("a layer's activations", "have no tokens", "record at least one");
    if (tokens.size() % inputs.size() != 0)
      refuse("a sample of " + std::to_string(tokens.size()) + " values",
             "does not consist of tokens of " + std::to_string(inputs.size()) + " channels",
             "give complete tokens of the same layer");
    if (!std::all_of(tokens.begin(), tokens.end(), [](float value) { return std::isfinite(value); }))
      refuse("a layer's activations", "are not all finite", "record activations again without NaNs and infinities");
    state_->weights.assign(inputs.size(), 0);
    state_->inputs = std::move(inputs);
    state_->tokens = std::move(tokens);
  });
}

SmoothSearch::SmoothSearch(SmoothSearch&&) noexcept = default;
SmoothSearch& SmoothSearch::operator=(SmoothSearch&&) noexcept = default;
SmoothSearch::~SmoothSearch() = default;

void SmoothSearch::add_layer(const Tensor& weight, bool input_first) {
  at_surface([&] {
    require_size(weight);
    if (weight.shape.size() != 2 || static_cast<std::size_t>(weight.shape[input_first ? 0 : 1]) != state_->channels())
      refuse("a layer's weight", "does not have " + std::to_string(state_->channels()) + " input channels",
             "give the activations and the layout of this checkpoint");
    const ValueType type = parse_value_type(weight.type);
    const std::size_t size = bytes_of(type);
    const auto columns = static_cast<std::size_t>(weight.shape[1]);
    const auto outputs = static_cast<std::size_t>(weight.shape[input_first ? 1 : 0]);
    const std::size_t kept = std::min(outputs, kSmoothRows);
    const std::size_t first = state_->rows.size();
    state_->rows.resize(first + kept * state_->channels());
    const std::vector<std::size_t> sampled = sampled_places(outputs, kept);
    const auto keep = [&](std::size_t at, std::size_t channel, float value) {
      state_->rows[first + at * state_->channels() + channel] = value;
    };
    for (std::size_t row = 0; row * columns * size < weight.data.size(); ++row) {
      const std::vector<float> values = floats_of(type, weight.data.subspan(row * columns * size, columns * size));
      for (std::size_t column = 0; column < columns; ++column) {
        if (!std::isfinite(values[column]))
          refuse("a layer's weight", "is not finite", "give a checkpoint without NaNs");
        double& largest = state_->weights[input_first ? row : column];
        largest = std::max(largest, std::abs(double{values[column]}));
      }
      if (input_first) {
        for (std::size_t i = 0; i < kept; ++i) keep(i, row, values[sampled[i]]);
      } else if (const auto at = std::lower_bound(sampled.begin(), sampled.end(), row);
                 at != sampled.end() && *at == row) {
        for (std::size_t i = 0; i < columns; ++i) keep(static_cast<std::size_t>(at - sampled.begin()), i, values[i]);
      }
    }
  });
}

std::span<const double> SmoothSearch::inputs() const { return state_->inputs; }
std::span<const double> SmoothSearch::weights() const { return state_->weights; }

std::vector<float> SmoothSearch::factors(double alpha) const { return state_->factors(alpha); }

Smoothing SmoothSearch::with_alpha(double alpha) const {
  return at_surface([&] {
    if (!(alpha >= 0 && alpha <= 1)) refuse("alpha " + std::to_string(alpha), "is not a share", "accepted: 0 to 1");
    Smoothing made{alpha, state_->factors(alpha)};
    made.error_before = state_->error(std::vector<float>(state_->channels(), 1));
    made.error_half = state_->error(state_->factors(0.5));
    made.error = state_->error(made.factors);
    return made;
  });
}

Smoothing SmoothSearch::search() const {
  return at_surface([&] {
    Smoothing best = with_alpha(0.5);
    const auto attempt = [&](double alpha) {
      if (alpha < 0 || alpha > 1) return;
      std::vector<float> factors = state_->factors(alpha);
      const double error = state_->error(factors);
      if (!is_less(error, best.error)) return;
      best.alpha = alpha;
      best.factors = std::move(factors);
      best.error = error;
    };
    for (int i = 0; i <= kGridSteps; ++i) attempt(static_cast<double>(i) / kGridSteps);
    for (double step = 0.5 / kGridSteps; step >= kLeastStep; step /= 2) {
      const double middle = *best.alpha;
      attempt(middle - step);
      attempt(middle + step);
    }
    if (!is_less(best.error, best.error_before)) {
      best.alpha.reset();
      best.factors.assign(best.factors.size(), 1);
      best.error = best.error_before;
    }
    return best;
  });
}

std::vector<float> sample_tokens(std::span<const std::string> files, const std::string& layer, std::size_t most) {
  return at_surface([&] {
    std::vector<float> sample;
    std::size_t taken = 0;
    for (std::size_t file = 0; file < files.size(); ++file) {
      // Files that lack the layer leave their share to later files.
      const std::size_t wanted = (file + 1) * most / files.size() - taken;
      if (wanted == 0) continue;
      const tools::SafetensorsReader reader(files[file]);
      const auto tensor = std::find_if(reader.tensors().begin(), reader.tensors().end(),
                                       [&](const tools::HeaderEntry& one) { return one.name == layer; });
      if (tensor == reader.tensors().end() || tensor->shape.empty() || tools::bytes_of(*tensor) == 0) continue;
      const ValueType type = parse_value_type(tensor->type);
      const std::size_t token = static_cast<std::size_t>(tensor->shape.back()) * bytes_of(type);
      const std::size_t tokens = tools::bytes_of(*tensor) / token;
      const std::size_t count = std::min(wanted, tokens);
      std::vector<std::byte> bytes(token);
      for (std::size_t i = 0; i < count; ++i) {
        reader.read(*tensor, i * tokens / count * token, bytes);
        const std::vector<float> values = floats_of(type, bytes);
        sample.insert(sample.end(), values.begin(), values.end());
      }
      taken += count;
    }
    return sample;
  });
}

}  // namespace cubit::calibrate
