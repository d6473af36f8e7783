#include "tools/calibrate/smooth_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "files/text/format.hpp"
#include "tools/pictures/svg.hpp"

namespace cubit::tools {
namespace {

constexpr double kPanelWidth = 340;
constexpr double kPanelHeight = 120;
constexpr double kMargin = 40;
constexpr double kPanelsTop = 70;
constexpr std::size_t kMostBars = 256;

std::string alpha_text(const calibrate::Smoothing& smoothing) {
  return smoothing.alpha ? fmt::format("{:.4g}", *smoothing.alpha) : "none";
}

/// The largest value of each of at most kMostBars equal parts of the channels.
std::vector<double> bars_of_channels(const std::vector<double>& values) {
  std::vector<double> bars(std::min(values.size(), kMostBars));
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& bar = bars[i * bars.size() / values.size()];
    bar = std::max(bar, values[i]);
  }
  return bars;
}

void draw_channels(Svg& svg, Point corner, const std::string& title, const std::vector<double>& values) {
  const std::vector<double> bars = bars_of_channels(values);
  const double most = *std::max_element(bars.begin(), bars.end());
  svg.text({corner.x, corner.y - 6}, fmt::format("{}: largest {:.4g}", title, most));
  const double width = kPanelWidth / static_cast<double>(bars.size());
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double height = most > 0 ? kPanelHeight * bars[i] / most : 0;
    svg.rectangle({corner.x + static_cast<double>(i) * width, corner.y + kPanelHeight - height, width, height},
                  {.fill = "#9fb7d1", .kind = "channel", .tooltip = fmt::format("{:.4g}", bars[i])});
  }
}

}  // namespace

std::string smooth_table(const SmoothReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const SmoothedGroup& one : report.groups)
    rows.push_back({one.group.norm, std::to_string(one.group.layers.size()), alpha_text(one.smoothing),
                    fmt::format("{:.3g}", one.smoothing.error_before), fmt::format("{:.3g}", one.smoothing.error_half),
                    fmt::format("{:.3g}", one.smoothing.error)});
  std::string text = format_table(
      {{"norm"}, {"layers", true}, {"alpha", true}, {"error before", true}, {"error at 0.5", true}, {"error", true}},
      rows);
  rows.clear();
  for (const calibrate::NotSmoothed& one : report.not_smoothed) rows.push_back({one.layer, one.reason});
  if (!rows.empty()) text += "\n" + format_table({{"not smoothed"}, {"reason"}}, rows);
  return text;
}

nlohmann::ordered_json smooth_json(const SmoothReport& report) {
  using Json = nlohmann::ordered_json;
  Json json = {{"errors_of", report.is_searched ? "all recorded tokens and output channels" : "a sample"},
               {"groups", Json::array()},
               {"not_smoothed", Json::array()}};
  for (const SmoothedGroup& one : report.groups) {
    const calibrate::Smoothing& smoothing = one.smoothing;
    json["groups"].push_back({{"norm", one.group.norm},
                              {"layers", one.group.layers},
                              {"alpha", smoothing.alpha ? Json(*smoothing.alpha) : Json()},
                              {"error_before", smoothing.error_before},
                              {"error_half", smoothing.error_half},
                              {"error", smoothing.error},
                              {"inputs", one.inputs},
                              {"weights", one.weights},
                              {"factors", smoothing.factors}});
  }
  for (const calibrate::NotSmoothed& one : report.not_smoothed)
    json["not_smoothed"].push_back({{"layer", one.layer}, {"reason", one.reason}});
  return json;
}

std::string channels_picture(const SmoothedGroup& one) {
  Svg svg(2 * kPanelWidth + 3 * kMargin, kPanelsTop + 2 * (kPanelHeight + kMargin),
          fmt::format("{}: ranges of channels", one.group.norm));
  svg.text({kMargin, 24}, one.group.norm, {.size = 15, .bold = true});
  svg.text({kMargin, 44}, fmt::format("alpha {}, output error {:.3g} before and {:.3g} after",
                                      alpha_text(one.smoothing), one.smoothing.error_before, one.smoothing.error));
  std::vector<double> inputs = one.inputs;
  std::vector<double> weights = one.weights;
  const double right = 2 * kMargin + kPanelWidth;
  const double below = kPanelsTop + kPanelHeight + kMargin;
  draw_channels(svg, {kMargin, kPanelsTop}, "inputs before", inputs);
  draw_channels(svg, {right, kPanelsTop}, "weights before", weights);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] /= one.smoothing.factors[i];
    weights[i] *= one.smoothing.factors[i];
  }
  draw_channels(svg, {kMargin, below}, "inputs after", inputs);
  draw_channels(svg, {right, below}, "weights after", weights);
  return svg.finish();
}

}  // namespace cubit::tools
