// What the study of INT8 accuracy measures: a block of made-up weights, or the recorded layers of a checkpoint.
#pragma once

#include <cubit/calibrate.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/study/accuracy/int8_choices.hpp"
#include "tools/study/accuracy/int8_steps.hpp"

namespace cubit::tools {

struct AccuracyErrors {
  double error = 0;                      ///< of what AccuracySubject::error_name says
  std::map<std::string, double> layers;  ///< of each layer's output
};

class AccuracySubject {
 public:
  virtual ~AccuracySubject() = default;
  /// Applies SmoothQuant for the measurements that follow, or none.
  virtual void smooth(std::optional<double> alpha) = 0;
  virtual AccuracyErrors measure(const InputChoice& input, bool per_channel) const = 0;
  virtual std::string error_name() const = 0;                ///< "output of the block"
  virtual std::vector<std::string> layer_names() const = 0;  ///< in the order of the report
  virtual nlohmann::ordered_json json() const = 0;           ///< the sizes of the subject
};

/// Statistics of the matrix's values, as calibration data.
calibrate::Statistics statistics_of(const Matrix& matrix);
/// The static scale of each layer. Throws BadInput that names the layer.
std::map<std::string, float> static_scales(const std::map<std::string, calibrate::Statistics>& statistics,
                                           calibrate::Method method);

}  // namespace cubit::tools
