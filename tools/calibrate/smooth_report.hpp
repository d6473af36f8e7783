// The reports of cubit smooth: the factors and errors of each group of layers, as a table, as JSON and as pictures.
#pragma once

#include <cubit/smooth.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cubit::tools {

struct SmoothedGroup {
  calibrate::SmoothGroup group;
  calibrate::Smoothing smoothing;
  std::vector<double> inputs;   ///< max |X_j| before smoothing
  std::vector<double> weights;  ///< max |W_j| before smoothing
};

struct SmoothReport {
  std::vector<SmoothedGroup> groups;
  std::vector<calibrate::NotSmoothed> not_smoothed;
  bool is_searched = false;  ///< the errors are those of all recorded tokens and output channels, not of a sample
};

/// One row per group, then the layers that are not smoothed.
std::string smooth_table(const SmoothReport& report);
nlohmann::ordered_json smooth_json(const SmoothReport& report);
/// The ranges of the channels before and after smoothing, of the inputs and of the weights side by side, as SVG.
std::string channels_picture(const SmoothedGroup& one);

}  // namespace cubit::tools
