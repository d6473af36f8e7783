#include "tools/bench/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/pictures/svg.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWidth = 1000;
constexpr Box kPlot{80, 76, 880, 520};
constexpr double kLegendLine = 18;
constexpr double kLabelSize = 10.5;
constexpr double kLabelHeight = 12;

struct Measured {
  std::string label;  ///< "B=512 96%"
  std::string descriptor;
  double intensity = 0;  ///< operations per byte
  double rate = 0;       ///< operations per second
  double floor_rate = 0;
};

std::vector<Measured> measured_of(const Json& entries) {
  std::vector<Measured> points;
  for (const Json& entry : entries) {
    if (!entry.contains("microseconds")) continue;
    const double operations = entry.at("operations").get<double>();
    if (operations <= 0) continue;  // A kernel that only moves bytes has no operations per byte.
    const double share = 100 * entry.at("floor_share").get<double>();
    const std::string name = entry.value("name", "");
    points.push_back({fmt::format("{}{}{:.0f}%", name, name.empty() ? "" : " ", share), entry.at("descriptor"),
                      operations / entry.at("bytes").get<double>(),
                      operations / entry.at("microseconds").get<double>() * 1e6,
                      operations / entry.at("floor_microseconds").get<double>() * 1e6});
  }
  return points;
}

/// A logarithmic axis from `low` to `high`, drawn from `begin` to `end`.
struct Axis {
  double low;
  double high;
  double begin;
  double end;
  double at(double value) const { return begin + (end - begin) * std::log(value / low) / std::log(high / low); }
};

/// The limits of the device, as the measurements know them.
struct Limits {
  double bytes_per_second = 0;
  double operations_per_second = 0;  ///< 0 if the limit is not known
  double at(double intensity) const {
    const double by_memory = intensity * bytes_per_second;
    return operations_per_second > 0 ? std::min(by_memory, operations_per_second) : by_memory;
  }
};

Limits limits_of(const Json& entries, const std::vector<Measured>& points) {
  Limits limits;
  for (const Measured& point : points) {
    limits.bytes_per_second = std::max(limits.bytes_per_second, point.floor_rate / point.intensity);
  }
  for (const Json& entry : entries) {
    limits.operations_per_second =
        std::max(limits.operations_per_second, entry.value("tensor_operations_per_second", 0.0));
  }
  return limits;
}

struct Axes {
  Axis x;
  Axis y;
  Point at(double intensity, double rate) const { return {x.at(intensity), y.at(rate)}; }
};

Axes axes_for(const std::vector<Measured>& points, const Limits& limits) {
  double left = points.front().intensity;
  double right = left;
  double bottom = points.front().rate;
  for (const Measured& point : points) {
    left = std::min(left, point.intensity);
    right = std::max(right, point.intensity);
    bottom = std::min(bottom, point.rate);
  }
  if (limits.operations_per_second > 0) right = std::max(right, limits.operations_per_second / limits.bytes_per_second);
  right *= 1.6;
  left /= 2;
  return {{left, right, kPlot.x, kPlot.x + kPlot.width},
          {bottom / 1.6, limits.at(right) * 1.7, kPlot.y + kPlot.height, kPlot.y}};
}

/// "4.65 TB/s", "12 T"
std::string scaled(double value) {
  constexpr const char* kPrefixes[] = {"", " K", " M", " G", " T", " P"};
  std::size_t prefix = 0;
  for (; value >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
  return fmt::format("{:.3g}{}", value, kPrefixes[prefix]);
}

/// Grid lines at 1, 2 and 5 times the powers of ten.
std::vector<double> ticks(const Axis& axis) {
  std::vector<double> values;
  for (double decade = std::pow(10, std::floor(std::log10(axis.low))); decade <= axis.high; decade *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (digit * decade >= axis.low && digit * decade <= axis.high) values.push_back(digit * decade);
    }
  }
  return values;
}

void draw_axes(Svg& svg, const Axes& axes) {
  const ShapeStyle grid{.stroke = "#e6e6e6"};
  const double bottom = kPlot.y + kPlot.height;
  for (const double value : ticks(axes.x)) {
    const double x = axes.x.at(value);
    svg.line({{x, kPlot.y}, {x, bottom}}, grid);
    svg.text({x, bottom + 15}, scaled(value), {.size = 10, .anchor = Anchor::middle, .fill = "#666666"});
  }
  for (const double value : ticks(axes.y)) {
    const double y = axes.y.at(value);
    svg.line({{kPlot.x, y}, {kPlot.x + kPlot.width, y}}, grid);
    svg.text({kPlot.x - 7, y + 3.5}, scaled(value), {.size = 10, .anchor = Anchor::end, .fill = "#666666"});
  }
  svg.rectangle(kPlot, {.stroke = "#999999"});
  svg.text({kPlot.middle().x, bottom + 34}, "operations per byte read",
           {.size = 12, .anchor = Anchor::middle, .fill = "#333333"});
  svg.text({kPlot.x - 60, kPlot.y - 10}, "operations per second", {.size = 12, .fill = "#333333"});
}

void draw_limits(Svg& svg, const Axes& axes, const Limits& limits) {
  const ShapeStyle roof{.stroke = "#333333", .stroke_width = 2, .kind = "limit"};
  const double left = std::max(axes.x.low, axes.y.low / limits.bytes_per_second);
  double ridge = axes.x.high;
  if (limits.operations_per_second > 0) {
    ridge = std::min(ridge, limits.operations_per_second / limits.bytes_per_second);
    svg.line({axes.at(ridge, limits.operations_per_second), axes.at(axes.x.high, limits.operations_per_second)}, roof);
    const Point end = axes.at(axes.x.high, limits.operations_per_second);
    svg.text({end.x - 6, end.y - 8}, fmt::format("tensor cores, fp16: {}op/s", scaled(limits.operations_per_second)),
             {.size = 11.5, .anchor = Anchor::end});
  }
  svg.line({axes.at(left, limits.at(left)), axes.at(ridge, limits.at(ridge))}, roof);
  // Points lie on or below the line, so the label goes above the line's middle.
  const double middle = std::sqrt(left * ridge) * 2;
  const Point beside = axes.at(middle, limits.at(middle));
  svg.text({beside.x - 12, beside.y - 8}, fmt::format("read floor: {}B/s", scaled(limits.bytes_per_second)),
           {.size = 11.5, .anchor = Anchor::end});
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/// Places labels next to their points: to the right first. If another label is in the way, the label moves down or to
/// the left.
class Labels {
 public:
  void keep_free(const Box& box) { taken_.push_back(box); }
  void place(Svg& svg, Point point, const std::string& label, const std::string& colour) {
    const double width = text_width(label, kLabelSize);
    Box box;
    for (const Place& place : places()) {
      box = {place.left ? point.x - kGap - width : point.x + kGap, point.y - kLabelHeight / 2 + place.shift, width,
             kLabelHeight};
      if (std::none_of(taken_.begin(), taken_.end(), [&](const Box& other) { return overlap(box, other); })) break;
    }
    taken_.push_back(box);
    const bool left = box.x < point.x;
    svg.line({{point.x + (left ? -4 : 4), point.y}, {left ? box.x + width + 2 : box.x - 2, box.middle().y}},
             {.stroke = colour, .stroke_width = 0.6});
    svg.text({left ? box.x + width : box.x, box.middle().y + 3.6}, label,
             {.size = kLabelSize, .anchor = left ? Anchor::end : Anchor::start});
  }

 private:
  static constexpr double kGap = 14;
  struct Place {
    double shift;
    bool left;
  };
  /// Candidate places, the nearest first. Labels move only downwards, because the points are placed from top to bottom;
  /// the lines to the labels then do not cross.
  static std::vector<Place> places() {
    constexpr double kStep = 4;
    constexpr int kSteps = 40;
    constexpr int kLeftCosts = 5;  // Steps down that cost as much as the left side.
    std::vector<Place> list;
    for (int step = -1; step < kSteps; ++step) {
      list.push_back({step * kStep, false});
      if (step >= kLeftCosts) list.push_back({(step - kLeftCosts) * kStep, true});
    }
    return list;
  }

  std::vector<Box> taken_;
};

std::vector<std::string> descriptors_of(const std::vector<Measured>& points) {
  std::vector<std::string> names;
  for (const Measured& point : points) {
    if (std::find(names.begin(), names.end(), point.descriptor) == names.end()) names.push_back(point.descriptor);
  }
  return names;
}

std::string colour_of(const std::vector<std::string>& names, const std::string& name) {
  const auto index = std::find(names.begin(), names.end(), name) - names.begin();
  return hsl(215 + 137.5 * static_cast<double>(index), 0.62, 0.42);
}

void draw_points(Svg& svg, const Axes& axes, std::vector<Measured> points, const std::vector<std::string>& names) {
  std::sort(points.begin(), points.end(), [](const Measured& a, const Measured& b) { return a.rate > b.rate; });
  Labels labels;
  for (const Measured& point : points) {
    const Point at = axes.at(point.intensity, point.rate);
    const double stem_end = std::min(at.y, axes.at(point.intensity, point.floor_rate).y);
    labels.keep_free({at.x - 6, stem_end - 3, 12, at.y - stem_end + 7});
  }
  for (const Measured& point : points) {
    const std::string colour = colour_of(names, point.descriptor);
    const Point at = axes.at(point.intensity, point.rate);
    const Point floor = axes.at(point.intensity, point.floor_rate);
    svg.line({at, floor}, {.stroke = colour, .kind = "stem"});
    svg.line({{floor.x - 5, floor.y}, {floor.x + 5, floor.y}}, {.stroke = colour, .kind = "floor"});
    svg.circle(at, 4,
               {.fill = colour,
                .stroke = "#ffffff",
                .kind = "point",
                .tooltip = fmt::format("{}: {}", point.descriptor, point.label)});
    labels.place(svg, at, point.label, colour);
  }
}

void draw_legend(Svg& svg, const std::vector<std::string>& names) {
  double y = kPlot.y + kPlot.height + 62;
  for (const std::string& name : names) {
    svg.circle({kPlot.x + 6, y - 4}, 4, {.fill = colour_of(names, name), .kind = "key"});
    svg.text({kPlot.x + 18, y}, name, {.size = 12});
    y += kLegendLine;
  }
}

}  // namespace

std::string roofline_picture(const Json& entries) {
  const std::vector<Measured> points = measured_of(entries);
  const std::vector<std::string> names = descriptors_of(points);
  Svg svg(kWidth, kPlot.y + kPlot.height + 62 + static_cast<double>(names.size()) * kLegendLine, "Roofline");
  if (points.empty()) {
    svg.text({20, 34}, "Nothing was measured, or the kernels only move bytes.", {.size = 17, .bold = true});
    return svg.finish();
  }
  std::string device;
  for (const Json& entry : entries) device = entry.value("device", device);
  svg.text({20, 30}, fmt::format("Roofline{}{}", device.empty() ? "" : ": ", device), {.size = 17, .bold = true});
  svg.text({20, 49},
           "A stem ends at the read floor of the same bytes in the same run; the label gives the share of the floor.",
           {.size = 11.5, .fill = "#555555"});
  const Limits limits = limits_of(entries, points);
  const Axes axes = axes_for(points, limits);
  draw_axes(svg, axes);
  draw_limits(svg, axes, limits);
  draw_points(svg, axes, points, names);
  draw_legend(svg, names);
  return svg.finish();
}

}  // namespace cubit::tools
