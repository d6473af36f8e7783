// What cubit calibrate reports: the ranges of every method for each layer, as a table and as JSON.
#pragma once

#include <array>
#include <cstddef>
#include <cubit/calibrate.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace cubit::tools {

inline constexpr std::array<calibrate::Method, 4> kMethods = {calibrate::Method::minmax, calibrate::Method::percentile,
                                                              calibrate::Method::entropy, calibrate::Method::mse};

/// The methods whose ranges the statistics give: all, or only minmax without a histogram.
std::span<const calibrate::Method> methods_of(const calibrate::Statistics& statistics);

struct LayerReport {
  std::string layer;
  const calibrate::Statistics* statistics;
  std::array<calibrate::Range, kMethods.size()> ranges;  ///< in the order of kMethods; filled for methods_of

  const calibrate::Range& range(calibrate::Method method) const { return ranges[static_cast<std::size_t>(method)]; }
};

/// The ranges of one layer by every method of methods_of. Throws a BadInput that names the layer.
LayerReport make_report(const calibrate::NamedStatistics& layer, const calibrate::RangeChoice& choice);

/// One row per layer: what was seen, the scale of the chosen method and, with a histogram, the error of every method.
std::string report_table(const std::vector<LayerReport>& layers, const calibrate::RangeChoice& choice);

nlohmann::ordered_json report_json(const std::vector<LayerReport>& layers, const calibrate::RangeChoice& choice,
                                   std::size_t files);

/// A histogram of the layer's values, which the statistics must have, with the ranges of all methods, as SVG. Heights
/// are logarithmic.
std::string histogram_picture(const LayerReport& layer);

}  // namespace cubit::tools
