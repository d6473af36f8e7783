#include "tools/study/kv/kv_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "files/text/format.hpp"
#include "tools/pictures/svg.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPlotLeft = 80;
constexpr double kPlotTop = 70;
constexpr double kPlotWidth = 560;
constexpr double kPlotHeight = 420;
constexpr double kRightMargin = 150;  ///< for labels of the rightmost points
constexpr double kLeastError = 1e-6;

std::string scales_text(const Json& entry) {
  auto scales = entry.at("scales").get<std::string>();
  if (scales == "channel") return "channel of keys, row of values";
  if (scales != "group") return scales;
  const int groups = entry.at("groups").get<int>();
  return fmt::format("{} group{}", groups, groups == 1 ? "" : "s");
}

/// "int8 token", "int4 4 groups", "int8 channel".
std::string label(const Json& entry) {
  auto format = entry.at("format").get<std::string>();
  const auto scales = entry.at("scales").get<std::string>();
  if (scales.empty()) return format;
  return format + " " + (scales == "channel" ? scales : scales_text(entry));
}

double error_of(const Json& entry) { return std::max(entry.at("error").get<double>(), kLeastError); }
double bytes_of_token(const Json& entry) { return entry.at("bytes_per_token").get<double>(); }

/// The ends of the axes: bytes from 0 on, errors between powers of ten.
struct Axes {
  double bytes = 1;
  double low = 0;
  double high = -10;

  explicit Axes(const Json& entries) {
    for (const Json& entry : entries) {
      bytes = std::max(bytes, bytes_of_token(entry));
      low = std::min(low, std::floor(std::log10(error_of(entry))));
      high = std::max(high, std::ceil(std::log10(error_of(entry))));
    }
    high = std::max(high, low + 1);
  }
  Point at(double bytes_per_token, double error) const {
    const double share = (std::log10(error) - low) / (high - low);
    return {kPlotLeft + kPlotWidth * bytes_per_token / bytes, kPlotTop + kPlotHeight * (1 - share)};
  }
};

void draw_axes(Svg& svg, const Axes& axes) {
  for (double decade = axes.low; decade <= axes.high; ++decade) {
    const Point left = axes.at(0, std::pow(10, decade));
    svg.line({left, {kPlotLeft + kPlotWidth, left.y}}, {.stroke = "#dddddd", .kind = "grid"});
    svg.text({kPlotLeft - 8, left.y + 4}, fmt::format("{:g}%", 100 * std::pow(10, decade)), {.anchor = Anchor::end});
  }
  constexpr int kParts = 4;
  for (int i = 0; i <= kParts; ++i) {
    const double bytes = axes.bytes * i / kParts;
    svg.text({axes.at(bytes, 1).x, kPlotTop + kPlotHeight + 20}, fmt::format("{:.0f}", bytes),
             {.anchor = Anchor::middle});
  }
  svg.text({kPlotLeft + kPlotWidth / 2, kPlotTop + kPlotHeight + 42}, "bytes per token, of all KV heads",
           {.anchor = Anchor::middle});
}

std::string colour_of(const std::string& format) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kHues = {
      {{"int4", 0}, {"fp8_e4m3", 120}, {"int8", 210}, {"fp8_e5m2", 280}}};
  for (const auto& [name, hue] : kHues)
    if (name == format) return hsl(hue, 0.65, 0.4);
  return "#444444";
}

/// Writes the labels from top to bottom, each below the one before.
void draw_points(Svg& svg, const Axes& axes, const Json& entries) {
  std::vector<const Json*> sorted;
  for (const Json& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const Json* a, const Json* b) { return error_of(*a) > error_of(*b); });
  constexpr double kTextSize = 11;
  std::vector<Box> taken;
  for (const Json* entry : sorted) {
    const Point point = axes.at(bytes_of_token(*entry), error_of(*entry));
    const std::string colour = colour_of(entry->at("format"));
    svg.circle(point, 4,
               {.fill = entry->at("simulated").get<bool>() ? "none" : colour,
                .stroke = colour,
                .kind = "format",
                .tooltip = fmt::format("{}: {:.3f}%", label(*entry), 100 * entry->at("error").get<double>())});
    Box box = {point.x + 7, point.y - kTextSize / 2, text_width(label(*entry), kTextSize), kTextSize + 1};
    const auto overlaps = [&](const Box& other) {
      return box.x < other.x + other.width && other.x < box.x + box.width && box.y < other.y + other.height &&
             other.y < box.y + box.height;
    };
    while (std::any_of(taken.begin(), taken.end(), overlaps)) box.y += 1;
    taken.push_back(box);
    svg.text({box.x, box.y + kTextSize - 1}, label(*entry), {.size = kTextSize, .fill = colour});
  }
}

}  // namespace

std::string kv_table(const Json& study) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& entry : study.at("entries"))
    rows.push_back(
        {entry.at("format"), scales_text(entry), fmt::format("{:.1f}", bytes_of_token(entry)),
         fmt::format("{:.3f}%", 100 * entry.at("error").get<double>()),
         fmt::format("{:.3f}%", 100 * entry.at("worst_error").get<double>()),
         entry.at("microseconds").is_null() ? "" : fmt::format("{:.1f}", entry.at("microseconds").get<double>()),
         entry.at("simulated").get<bool>() ? "simulated" : "kernels"});
  return format_table(
      {{"format"}, {"a scale per"}, {"bytes/token", true}, {"error", true}, {"worst head", true}, {"us", true}, {"by"}},
      rows);
}

std::string kv_picture(const Json& study) {
  const Json& entries = study.at("entries");
  Svg svg(kPlotLeft + kPlotWidth + kRightMargin, kPlotTop + kPlotHeight + 60, "Error of attention by KV format");
  svg.text({kPlotLeft, 28}, "Error of the attention output beside fp32", {.size = 15, .bold = true});
  svg.text({kPlotLeft, 48}, "logarithmic; hollow: simulated on the host");
  const Axes axes(entries);
  draw_axes(svg, axes);
  draw_points(svg, axes, entries);
  return svg.finish();
}

}  // namespace cubit::tools
