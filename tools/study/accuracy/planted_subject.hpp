// The study's block of made-up weights, whose norms have outlier channels.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/study/accuracy/subject.hpp"

namespace cubit::tools {

struct PlantedOptions {
  BlockSizes sizes;
  std::size_t tokens = 16;              ///< whose output is compared
  std::size_t calibration_tokens = 64;  ///< whose inputs decide static scales and SmoothQuant
  PlantedOutliers outliers;
  std::uint64_t seed = 1;
};

/// Throws BadInput for sizes that the block or the kernels cannot have.
void check(const PlantedOptions& options);

/// The block, its calibration data, and other data whose output is compared.
class PlantedSubject : public AccuracySubject {
 public:
  PlantedSubject(const PlantedOptions& options, const KernelRunner& runner);
  void smooth(std::optional<double> alpha) override;
  AccuracyErrors measure(const InputChoice& input, bool per_channel) const override;
  std::string error_name() const override { return "output of the block"; }
  std::vector<std::string> layer_names() const override;
  nlohmann::ordered_json json() const override;

 private:
  PlantedOptions options_;
  Int8Kernels kernels_;
  TransformerBlock plain_;
  Matrix calibration_;
  Matrix inputs_;
  Matrix exact_;
  std::map<std::string, Matrix> plain_inputs_;                ///< of the layers, with the calibration data
  TransformerBlock block_;                                    ///< after SmoothQuant
  std::array<std::map<std::string, Int8Weight>, 2> weights_;  ///< with a scale per tensor, per channel
  std::map<std::string, calibrate::Statistics> statistics_;
};

}  // namespace cubit::tools
