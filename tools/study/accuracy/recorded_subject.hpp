// The study's subject if the user has a checkpoint and recorded activations: each linear layer by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cubit/smooth.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/checkpoint/reader.hpp"
#include "tools/study/accuracy/subject.hpp"

namespace cubit::tools {

struct RecordedOptions {
  std::string checkpoint;
  std::string activations;
  std::vector<std::string> layers;  ///< patterns; none: all
  std::string architecture;
  std::string mapping;
  bool smooths = true;  ///< whether an alpha will be given, which needs a mapping of norms to layers
};

/// Layers that have recorded inputs. A sample of the tokens is the calibration data, and evenly spaced tokens of the
/// sample are those whose outputs are compared.
class RecordedSubject : public AccuracySubject {
 public:
  /// Throws BadInput if a recorded layer has no weight in the checkpoint, or inputs that are not finite.
  RecordedSubject(const RecordedOptions& options, std::size_t tokens, std::size_t calibration_tokens,
                  const KernelRunner& runner);
  void smooth(std::optional<double> alpha) override;
  AccuracyErrors measure(const InputChoice& input, bool per_channel) const override;
  std::string error_name() const override { return "layers (root mean square)"; }
  std::vector<std::string> layer_names() const override;
  nlohmann::ordered_json json() const override;

 private:
  struct Layer {
    Matrix weight;
    Matrix sample;                   ///< calibration data
    std::vector<double> magnitudes;  ///< max |X_j| of all recorded tokens
  };
  struct Smoothed {
    Matrix inputs;                      ///< whose outputs are compared
    std::array<Int8Weight, 2> weights;  ///< with a scale per tensor, per channel
  };
  void read(const CheckpointReader& checkpoint, const calibrate::NamedStatistics& recorded,
            const std::vector<std::string>& files);
  std::vector<float> factors(const calibrate::SmoothGroup& group, double alpha) const;
  Matrix compared(const Matrix& sample) const;

  RecordedOptions options_;
  std::size_t tokens_;
  std::size_t calibration_tokens_;
  Int8Kernels kernels_;
  std::optional<calibrate::Mapping> mapping_;  ///< none if the architecture is unknown and not needed
  std::vector<calibrate::SmoothGroup> groups_;
  std::map<std::string, Layer> layers_;
  std::map<std::string, Smoothed> smoothed_;
  std::map<std::string, calibrate::Statistics> statistics_;
};

}  // namespace cubit::tools
