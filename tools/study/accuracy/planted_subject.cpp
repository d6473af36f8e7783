#include "tools/study/accuracy/planted_subject.hpp"

#include <fmt/format.h>

#include <cmath>

#include "files/text/error.hpp"

namespace cubit::tools {
namespace {

constexpr std::size_t kSizeUnit = 16;  ///< of the kernels' rows
constexpr std::size_t kMostSize = 32768;
constexpr std::size_t kMostTokens = 4096;

void require_size(const std::string& option, std::size_t value, std::size_t unit, std::size_t least, std::size_t most) {
  if (value % unit == 0 && value >= least && value <= most) return;
  throw BadInput(
      fmt::format("{} {}", option, value), "is no size of the block",
      fmt::format("accepted: {}from {} to {}", unit == 1 ? "" : fmt::format("multiples of {} ", unit), least, most));
}

void require_factor(const std::string& option, double value) {
  if (value >= 1 && value <= 1000) return;
  throw BadInput(fmt::format("{} {}", option, value), "is no factor of outlier channels", "accepted: from 1 to 1000");
}

}  // namespace

void check(const PlantedOptions& options) {
  require_size("--hidden", options.sizes.hidden, kSizeUnit, 4 * kSizeUnit, kMostSize);
  require_size("--inner", options.sizes.inner, kSizeUnit, kSizeUnit, kMostSize);
  require_size("--tokens", options.tokens, 1, 1, kMostTokens);
  require_size("--calibration-tokens", options.calibration_tokens, 1, 1, kMostTokens);
  if (options.sizes.heads == 0 || options.sizes.hidden % options.sizes.heads != 0)
    throw BadInput(fmt::format("--heads {}", options.sizes.heads),
                   fmt::format("does not divide the {} channels of --hidden", options.sizes.hidden), "give a divisor");
  require_factor("--outlier-norm", options.outliers.norm);
  require_factor("--outlier-weight", options.outliers.weight);
}

PlantedSubject::PlantedSubject(const PlantedOptions& options, const KernelRunner& runner)
    : options_(options), kernels_(runner) {
  check(options);
  std::mt19937 random(static_cast<std::mt19937::result_type>(options.seed));
  plain_ = planted_block(random, options.sizes, options.outliers);
  calibration_ = random_matrix(random, options.calibration_tokens, options.sizes.hidden, 1);
  inputs_ = random_matrix(random, options.tokens, options.sizes.hidden, 1);
  HostSteps host(plain_);
  exact_ = run_block(options.sizes, inputs_, host);
  run_block(options.sizes, calibration_, host);
  plain_inputs_ = host.inputs();
}

void PlantedSubject::smooth(std::optional<double> alpha) {
  block_ = alpha ? smoothed_block(plain_, plain_inputs_, *alpha) : plain_;
  HostSteps host(block_);
  run_block(options_.sizes, calibration_, host);
  for (const std::string& name : block_layer_names()) {
    const std::string layer = block_layer(name);
    statistics_.insert_or_assign(layer, statistics_of(host.inputs().at(layer)));
    for (const bool per_channel : {false, true})
      weights_[per_channel ? 1 : 0].insert_or_assign(layer, quantised_weight(block_.weights.at(layer), per_channel));
  }
}

AccuracyErrors PlantedSubject::measure(const InputChoice& input, bool per_channel) const {
  std::map<std::string, float> scales;
  if (input.scale == InputScale::static_tensor) scales = static_scales(statistics_, input.method);
  Int8Steps steps(kernels_, block_, weights_[per_channel ? 1 : 0], input.scale, scales);
  const Matrix got = run_block(options_.sizes, inputs_, steps);
  return {relative_error(got, exact_), steps.layer_errors()};
}

std::vector<std::string> PlantedSubject::layer_names() const {
  std::vector<std::string> names;
  for (const std::string& name : block_layer_names()) names.push_back(block_layer(name));
  return names;
}

nlohmann::ordered_json PlantedSubject::json() const {
  return {{"hidden", options_.sizes.hidden},
          {"inner", options_.sizes.inner},
          {"heads", options_.sizes.heads},
          {"tokens", options_.tokens},
          {"calibration_tokens", options_.calibration_tokens},
          {"outlier_channels", kOutlierChannels},
          {"outlier_norm", options_.outliers.norm},
          {"outlier_weight", options_.outliers.weight},
          {"seed", options_.seed}};
}

}  // namespace cubit::tools
