// Output errors of INT8 on all recorded tokens and all output channels.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <cubit/smooth.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "base/transpose.hpp"
#include "calibrate/errors.hpp"
#include "calibrate/smoothing/int8.hpp"
#include "calibrate/statistics/values.hpp"
#include "files/safetensors/reader.hpp"

namespace cubit::calibrate {
namespace {

constexpr std::size_t kTokensOfBlock = 256;
constexpr std::size_t kLanes = 8;  ///< channels are padded with zeros to a multiple
constexpr std::size_t kRowsAtOnce = 4;
constexpr std::size_t kTokensAtOnce = 2;
constexpr std::int64_t kRowGroupsPerThread = 4;

/// The products of kRowsAtOnce rows and kTokensAtOnce tokens.
using Products = std::array<float, kRowsAtOnce * kTokensAtOnce>;

/// The order of the sums does not depend on the processor, so the result does not either.
[[gnu::always_inline]] inline void multiply_rows(const float* rows, const float* tokens, std::size_t stride,
                                                 Products& products) {
  using Floats [[gnu::vector_size(4 * kLanes)]] = float;
  Floats sums[kRowsAtOnce][kTokensAtOnce] = {};
  for (std::size_t i = 0; i < stride; i += kLanes) {
    Floats token[kTokensAtOnce];
    for (std::size_t t = 0; t < kTokensAtOnce; ++t) std::memcpy(&token[t], tokens + t * stride + i, sizeof(Floats));
#pragma GCC unroll 4
    for (std::size_t row = 0; row < kRowsAtOnce; ++row) {
      Floats weight;
      std::memcpy(&weight, rows + row * stride + i, sizeof weight);
#pragma GCC unroll 2
      for (std::size_t t = 0; t < kTokensAtOnce; ++t) sums[row][t] += weight * token[t];
    }
  }
  for (std::size_t row = 0; row < kRowsAtOnce; ++row) {
    for (std::size_t t = 0; t < kTokensAtOnce; ++t) {
      float sum = 0;
      for (std::size_t lane = 0; lane < kLanes; ++lane) sum += sums[row][t][lane];
      products[row * kTokensAtOnce + t] = sum;
    }
  }
}

using MultiplyRows = void (*)(const float*, const float*, std::size_t, Products&);

void multiply_plain(const float* rows, const float* tokens, std::size_t stride, Products& products) {
  multiply_rows(rows, tokens, stride, products);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void multiply_avx2(const float* rows, const float* tokens, std::size_t stride,
                                           Products& products) {
  multiply_rows(rows, tokens, stride, products);
}
MultiplyRows multiply_here() { return __builtin_cpu_supports("avx2") ? multiply_avx2 : multiply_plain; }
#else
MultiplyRows multiply_here() { return multiply_plain; }
#endif

std::size_t padded(std::size_t count, std::size_t unit) { return (count + unit - 1) / unit * unit; }

/// One choice of factors, with what the quantisation of inputs needs.
struct Choice {
  std::span<const float> factors;
  std::vector<float> inverse;
  float largest = 0;  ///< smoothed input
};

std::vector<Choice> choices_of(const std::vector<double>& inputs, const std::vector<std::vector<float>>& choices) {
  std::vector<Choice> made;
  for (const std::vector<float>& factors : choices) {
    Choice& one = made.emplace_back(Choice{factors, std::vector<float>(factors.size())});
    for (std::size_t i = 0; i < factors.size(); ++i) {
      one.inverse[i] = 1 / factors[i];
      one.largest = std::max(one.largest, static_cast<float>(inputs[i] / factors[i]));
    }
  }
  return made;
}

/// A matrix and its quantised versions, one for each choice. Rows and columns are padded with zeros.
struct Versions {
  std::size_t stride;
  std::vector<std::vector<float>> values;  ///< exact, then by each choice

  Versions(std::size_t rows, std::size_t channels, std::size_t choices, std::size_t unit)
      : stride(padded(channels, kLanes)), values(choices + 1, std::vector<float>(padded(rows, unit) * stride)) {}
  float* exact(std::size_t row) { return values[0].data() + row * stride; }
  float* by(std::size_t choice, std::size_t row) { return values[choice + 1].data() + row * stride; }
};

/// The tokens that are not all zero; zeros have no output error.
Versions tokens_of(const std::vector<float>& values, std::size_t channels, const std::vector<Choice>& choices) {
  std::vector<const float*> filled;
  for (std::size_t begin = 0; begin < values.size(); begin += channels) {
    const float* token = values.data() + begin;
    if (std::any_of(token, token + channels, [](float value) { return value != 0; })) filled.push_back(token);
  }
  Versions tokens(filled.size(), channels, choices.size(), kTokensAtOnce);
  for (std::size_t i = 0; i < filled.size(); ++i) {
    std::copy(filled[i], filled[i] + channels, tokens.exact(i));
    for (std::size_t choice = 0; choice < choices.size(); ++choice)
      quantise_smoothed(filled[i], choices[choice].inverse, choices[choice].largest, tokens.by(choice, i));
  }
  return tokens;
}

/// kRowsAtOnce rows of a weight from `first` on.
Versions rows_of(ValueType type, std::span<const std::byte> weight, std::size_t first, std::size_t channels,
                 const std::vector<Choice>& choices) {
  Versions rows(kRowsAtOnce, channels, choices.size(), 1);
  const std::size_t bytes = channels * bytes_of(type);
  for (std::size_t i = 0; i < kRowsAtOnce && (first + i) * bytes < weight.size(); ++i) {
    const std::vector<float> row = floats_of(type, weight.subspan((first + i) * bytes, bytes));
    std::copy(row.begin(), row.end(), rows.exact(i));
    for (std::size_t choice = 0; choice < choices.size(); ++choice) {
      float largest = 0;
      for (std::size_t channel = 0; channel < channels; ++channel)
        largest = std::max(largest, std::abs(row[channel] * choices[choice].factors[channel]));
      quantise_smoothed(row.data(), choices[choice].factors, largest, rows.by(choice, i));
    }
  }
  return rows;
}

/// Calls work(values) for the tokens of a layer's input, at most kTokensOfBlock at a time.
template <class Work>
void for_blocks(const std::string& path, const std::string& layer, std::size_t channels, Work work) {
  const tools::SafetensorsReader reader(path);
  const auto tensor = std::find_if(reader.tensors().begin(), reader.tensors().end(),
                                   [&](const tools::HeaderEntry& one) { return one.name == layer; });
  if (tensor == reader.tensors().end() || tools::bytes_of(*tensor) == 0) return;
  const std::int64_t width = tensor->shape.empty() ? 1 : tensor->shape.back();
  if (static_cast<std::size_t>(width) != channels)
    refuse(path + ", tensor " + layer, "does not have " + std::to_string(channels) + " channels",
           "record all batches from the same model");
  const ValueType type = parse_value_type(tensor->type);
  const std::size_t all = tools::bytes_of(*tensor);
  std::vector<std::byte> bytes;
  for (std::size_t begin = 0; begin < all; begin += bytes.size()) {
    bytes.resize(std::min(kTokensOfBlock * channels * bytes_of(type), all - begin));
    reader.read(*tensor, begin, bytes);
    work(floats_of(type, bytes));
  }
}

/// Adds the squares of the outputs to sums[0], and the squared differences of each choice to the sums after it.
void add_squares(const Versions& rows, const Versions& tokens, MultiplyRows multiply, double* sums) {
  Products exact;
  Products quantised;
  for (std::size_t token = 0; token * tokens.stride < tokens.values[0].size(); token += kTokensAtOnce) {
    for (std::size_t version = 0; version < rows.values.size(); ++version) {
      Products& products = version == 0 ? exact : quantised;
      multiply(rows.values[version].data(), tokens.values[version].data() + token * tokens.stride, rows.stride,
               products);
      for (std::size_t i = 0; i < products.size(); ++i) {
        const double value = version == 0 ? exact[i] : double{quantised[i]} - exact[i];
        sums[version] += value * value;
      }
    }
  }
}

}  // namespace

OutputErrors::OutputErrors(std::vector<double> inputs, std::vector<std::vector<float>> choices)
    : inputs_(std::move(inputs)), choices_(std::move(choices)), differences_(choices_.size()) {
  at_surface([&] {
    for (const std::vector<float>& factors : choices_)
      if (factors.size() != inputs_.size())
        refuse(std::to_string(factors.size()) + " factors",
               "do not fit " + std::to_string(inputs_.size()) + " input channels", "give a factor for each channel");
  });
}

void OutputErrors::add_layer(const Tensor& weight, bool input_first, std::span<const std::string> files,
                             const std::string& recorded, const std::function<void(std::size_t)>& show) {
  at_surface([&] {
    require_size(weight);
    const std::size_t channels = inputs_.size();
    if (weight.shape.size() != 2 || static_cast<std::size_t>(weight.shape[input_first ? 0 : 1]) != channels)
      refuse("a layer's weight", "does not have " + std::to_string(channels) + " input channels",
             "give the activations and the layout of this checkpoint");
    const ValueType type = parse_value_type(weight.type);
    const auto outputs = static_cast<std::size_t>(weight.shape[input_first ? 1 : 0]);
    std::vector<std::byte> turned;
    if (input_first) turned = transposed_bytes(weight.data, outputs, bytes_of(type));
    const std::span<const std::byte> rows = input_first ? turned : weight.data;
    const std::vector<Choice> choices = choices_of(inputs_, choices_);
    const MultiplyRows multiply = multiply_here();
    const std::size_t groups = padded(outputs, kRowsAtOnce) / kRowsAtOnce;
    const auto add_block = [&](const std::vector<float>& values) {
      const Versions tokens = tokens_of(values, channels, choices);
      std::vector<std::vector<double>> sums(groups, std::vector<double>(choices.size() + 1));
      if (tokens.values[0].empty()) return;
      parallel_for(
          static_cast<std::int64_t>(groups),
          [&](std::int64_t i) {
            const auto group = static_cast<std::size_t>(i);
            add_squares(rows_of(type, rows, group * kRowsAtOnce, channels, choices), tokens, multiply,
                        sums[group].data());
          },
          kRowGroupsPerThread);
      for (const std::vector<double>& one : sums) {  // in order, so the result does not depend on the threads
        outputs_ += one[0];
        for (std::size_t choice = 0; choice < choices.size(); ++choice) differences_[choice] += one[choice + 1];
      }
    };
    for (std::size_t file = 0; file < files.size(); ++file) {
      for_blocks(files[file], recorded, channels, add_block);
      if (show) show(file + 1);
    }
  });
}

std::vector<double> OutputErrors::errors() const {
  std::vector<double> errors = differences_;
  for (double& error : errors) error = outputs_ > 0 ? error / outputs_ : 0;
  return errors;
}

}  // namespace cubit::calibrate
