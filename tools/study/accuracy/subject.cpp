#include "tools/study/accuracy/subject.hpp"

#include <span>

#include "files/text/error.hpp"

namespace cubit::tools {

calibrate::Statistics statistics_of(const Matrix& matrix) {
  calibrate::Statistics statistics({.histogram = true, .moments = false});
  const std::vector<std::int64_t> shape = matrix.shape();
  statistics.add({"F32", shape, std::as_bytes(std::span(matrix.values))});
  return statistics;
}

std::map<std::string, float> static_scales(const std::map<std::string, calibrate::Statistics>& statistics,
                                           calibrate::Method method) {
  std::map<std::string, float> scales;
  for (const auto& [layer, one] : statistics) {
    try {
      scales[layer] = static_cast<float>(calibrate::choose_range(one, {.method = method}).scale);
    } catch (const Error& error) {
      throw BadInput("layer " + layer + ", " + error.given(), error.why(), error.remedy());
    }
  }
  return scales;
}

}  // namespace cubit::tools
