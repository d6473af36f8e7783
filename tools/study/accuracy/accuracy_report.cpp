#include "tools/study/accuracy/accuracy_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "files/text/format.hpp"
#include "tools/pictures/svg.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPlotLeft = 70;
constexpr double kPlotTop = 70;
constexpr double kPlotWidth = 430;
constexpr double kPlotHeight = 360;
constexpr double kLegendLeft = kPlotLeft + kPlotWidth + 20;
constexpr double kPictureWidth = kLegendLeft + 250;
constexpr double kPictureHeight = kPlotTop + kPlotHeight + 60;
constexpr double kLegendHeight = 22;

/// The entries of one choice of scales, in the order of alpha.
struct Curve {
  std::string activations;
  std::string weights;
  std::vector<const Json*> entries;

  const Json& best() const {
    return **std::min_element(entries.begin(), entries.end(), [](const Json* a, const Json* b) {
      return a->at("error").get<double>() < b->at("error").get<double>();
    });
  }
};

std::vector<Curve> curves_of(const Json& study) {
  std::vector<Curve> curves;
  for (const Json& entry : study.at("entries")) {
    const auto found = std::find_if(curves.begin(), curves.end(), [&](const Curve& one) {
      return entry.at("activations") == one.activations && entry.at("weights") == one.weights;
    });
    if (found != curves.end()) {
      found->entries.push_back(&entry);
    } else {
      curves.push_back({entry.at("activations"), entry.at("weights"), {&entry}});
    }
  }
  return curves;
}

std::string alpha_text(const Json& entry) {
  return entry.at("alpha").is_null() ? "none" : fmt::format("{:g}", entry.at("alpha").get<double>());
}

std::string percent(const Json& error) { return fmt::format("{:.2f}%", 100 * error.get<double>()); }

std::string errors_table(const std::vector<Curve>& curves) {
  std::vector<Column> columns = {{"activations"}, {"weights"}};
  for (const Json* entry : curves.front().entries) columns.push_back({"alpha " + alpha_text(*entry), true});
  std::vector<std::vector<std::string>> rows;
  for (const Curve& curve : curves) {
    std::vector<std::string>& row = rows.emplace_back(std::vector{curve.activations, curve.weights});
    for (const Json* entry : curve.entries) row.push_back(percent(entry->at("error")));
  }
  return format_table(columns, rows);
}

std::string short_name(const std::string& layer) { return layer.substr(layer.rfind('.') + 1); }

std::string layers_table(const Json& study, const std::vector<Curve>& curves) {
  const auto names = study.at("layers").get<std::vector<std::string>>();
  std::vector<Column> columns = {
      {"layer"}, {"activations"}, {"weights"}, {"no SmoothQuant", true}, {"best alpha", true}, {"error", true}};
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : names)
    for (const Curve& curve : curves)
      rows.push_back({short_name(name), curve.activations, curve.weights,
                      percent(curve.entries.front()->at("layers").at(name)), alpha_text(curve.best()),
                      percent(curve.best().at("layers").at(name))});
  return format_table(columns, rows);
}

/// Powers of ten around all errors. Errors of 0 are drawn at the lower end.
std::pair<double, double> decades(const std::vector<Curve>& curves) {
  double least = 1;
  double most = 0;
  for (const Curve& curve : curves)
    for (const Json* entry : curve.entries) {
      const double error = std::max(entry->at("error").get<double>(), 1e-6);
      least = std::min(least, error);
      most = std::max(most, error);
    }
  const double low = std::floor(std::log10(least));
  return {low, std::max(std::ceil(std::log10(most)), low + 1)};
}

class Plot {
 public:
  explicit Plot(const std::vector<Curve>& curves) : curves_(curves), range_(decades(curves)) {}

  void draw(Svg& svg) const {
    draw_axes(svg);
    for (std::size_t i = 0; i < curves_.size(); ++i) draw_curve(svg, i);
  }

 private:
  double x(std::size_t entry) const {
    const auto last = static_cast<double>(std::max<std::size_t>(curves_.front().entries.size() - 1, 1));
    return kPlotLeft + kPlotWidth * static_cast<double>(entry) / last;
  }
  double y(double error) const {
    const double share = (std::log10(std::max(error, 1e-6)) - range_.first) / (range_.second - range_.first);
    return kPlotTop + kPlotHeight * (1 - share);
  }
  void draw_axes(Svg& svg) const {
    for (double decade = range_.first; decade <= range_.second; ++decade) {
      const double at = y(std::pow(10, decade));
      svg.line({{kPlotLeft, at}, {kPlotLeft + kPlotWidth, at}}, {.stroke = "#dddddd", .kind = "grid"});
      svg.text({kPlotLeft - 8, at + 4}, fmt::format("{:g}%", 100 * std::pow(10, decade)), {.anchor = Anchor::end});
    }
    const std::vector<const Json*>& entries = curves_.front().entries;
    for (std::size_t i = 0; i < entries.size(); ++i)
      svg.text({x(i), kPlotTop + kPlotHeight + 20}, alpha_text(*entries[i]), {.anchor = Anchor::middle});
    svg.text({kPlotLeft + kPlotWidth / 2, kPlotTop + kPlotHeight + 42}, "alpha of SmoothQuant",
             {.anchor = Anchor::middle});
  }
  void draw_curve(Svg& svg, std::size_t index) const {
    const Curve& curve = curves_[index];
    const std::string name = curve.activations + ", weights per " + curve.weights;
    std::size_t group = 0;  // curves of the same activations have the same colour
    std::vector<std::string> seen;
    for (const Curve& one : curves_)
      if (std::find(seen.begin(), seen.end(), one.activations) == seen.end()) seen.push_back(one.activations);
    group = static_cast<std::size_t>(std::find(seen.begin(), seen.end(), curve.activations) - seen.begin());
    const std::string colour = hsl(360.0 * static_cast<double>(group) / static_cast<double>(seen.size()), 0.7, 0.4);
    const bool dashed = curve.weights == "tensor";
    std::vector<Point> points;
    for (std::size_t i = 0; i < curve.entries.size(); ++i) {
      points.push_back({x(i), y(curve.entries[i]->at("error").get<double>())});
      svg.circle(points.back(), 3,
                 {.fill = colour,
                  .kind = "error",
                  .tooltip = fmt::format("{}, alpha {}: {}", name, alpha_text(*curve.entries[i]),
                                         percent(curve.entries[i]->at("error")))});
    }
    svg.line(points, {.stroke = colour, .stroke_width = 1.5, .kind = "curve", .tooltip = name, .dashed = dashed});
    const double at = kPlotTop + kLegendHeight * static_cast<double>(index);
    svg.line({{kLegendLeft, at}, {kLegendLeft + 30, at}}, {.stroke = colour, .stroke_width = 1.5, .dashed = dashed});
    svg.text({kLegendLeft + 38, at + 4}, name);
  }

  const std::vector<Curve>& curves_;
  std::pair<double, double> range_;
};

}  // namespace

std::string accuracy_tables(const Json& study) {
  const std::vector<Curve> curves = curves_of(study);
  return fmt::format(
      "Error of the {}, relative to fp32\n\n{}\nError of each layer, and with the best alpha of the row\n\n{}",
      study.at("error").get<std::string>(), errors_table(curves), layers_table(study, curves));
}

std::string accuracy_picture(const Json& study) {
  const std::vector<Curve> curves = curves_of(study);
  Svg svg(kPictureWidth, std::max(kPictureHeight, kPlotTop + kLegendHeight * static_cast<double>(curves.size()) + 20),
          "Error of INT8 by scales and SmoothQuant");
  svg.text({kPlotLeft, 28}, "Error of INT8 beside fp32", {.size = 15, .bold = true});
  svg.text({kPlotLeft, 48}, fmt::format("of the {}, logarithmic", study.at("error").get<std::string>()));
  Plot(curves).draw(svg);
  return svg.finish();
}

}  // namespace cubit::tools
