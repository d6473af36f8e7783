#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tools/calibrate/report.hpp"
#include "tools/pictures/svg.hpp"

namespace cubit::tools {
namespace {

constexpr double kPictureWidth = 760;
constexpr double kPlotLeft = 40;
constexpr double kPlotTop = 60;
constexpr double kPlotHeight = 220;
constexpr double kRowHeight = 22;
constexpr int kBars = 256;

/// The counts of kBars equal parts of the values' range, whose ends lie on edges of bins.
struct Bars {
  double low;
  double high;
  std::vector<double> counts = std::vector<double>(kBars);
};

Bars bars_of(const calibrate::Statistics& statistics) {
  const calibrate::Histogram histogram = statistics.histogram();
  const double width = std::ldexp(1.0 / calibrate::kHistogramBins, histogram.exponent);
  Bars bars{std::min(0.0, std::floor(statistics.minimum() / width)), std::floor(statistics.maximum() / width) + 1};
  bars.high = std::max(bars.high, bars.low + 1);
  const auto add = [&](double bin, std::uint64_t count) {
    const double share = (bin + 0.5 - bars.low) / (bars.high - bars.low);
    bars.counts[static_cast<std::size_t>(std::clamp(static_cast<int>(share * kBars), 0, kBars - 1))] +=
        static_cast<double>(count);
  };
  for (std::size_t i = 0; i < histogram.positive.size(); ++i) {
    if (histogram.positive[i] != 0) add(static_cast<double>(i), histogram.positive[i]);
    if (histogram.negative[i] != 0) add(-static_cast<double>(i) - 1, histogram.negative[i]);
  }
  bars.low *= width;
  bars.high *= width;
  return bars;
}

void draw_bars(Svg& svg, const Bars& bars) {
  const double most = std::log1p(*std::max_element(bars.counts.begin(), bars.counts.end()));
  const double width = (kPictureWidth - 2 * kPlotLeft) / kBars;
  for (int i = 0; i < kBars; ++i) {
    const double count = bars.counts[static_cast<std::size_t>(i)];
    const double height = most > 0 ? kPlotHeight * std::log1p(count) / most : 0;
    if (count > 0)
      svg.rectangle({kPlotLeft + i * width, kPlotTop + kPlotHeight - height, width, height},
                    {.fill = "#9fb7d1", .kind = "bar", .tooltip = fmt::format("{} values", count)});
  }
}

}  // namespace

std::string histogram_picture(const LayerReport& layer) {
  const Bars bars = bars_of(*layer.statistics);
  const double rows = kPlotTop + kPlotHeight + 40;
  Svg svg(kPictureWidth, rows + kRowHeight * static_cast<double>(kMethods.size()) + 10,
          fmt::format("{}: values and ranges", layer.layer));
  svg.text({kPlotLeft, 24}, layer.layer, {.size = 15, .bold = true});
  svg.text({kPlotLeft, 44}, fmt::format("{} values of {} tokens, logarithmic heights", layer.statistics->count(),
                                        layer.statistics->tokens()));
  draw_bars(svg, bars);
  const auto at = [&](double value) {
    const double share = std::clamp((value - bars.low) / (bars.high - bars.low), 0.0, 1.0);
    return kPlotLeft + share * (kPictureWidth - 2 * kPlotLeft);
  };
  svg.text({kPlotLeft, kPlotTop + kPlotHeight + 18}, fmt::format("{:.4g}", bars.low));
  svg.text({kPictureWidth - kPlotLeft, kPlotTop + kPlotHeight + 18}, fmt::format("{:.4g}", bars.high),
           {.anchor = Anchor::end});
  for (std::size_t i = 0; i < kMethods.size(); ++i) {
    const calibrate::Range& range = layer.ranges[i];
    const std::string colour = hsl(90.0 * static_cast<double>(i), 0.75, 0.38);
    const double y = rows + kRowHeight * static_cast<double>(i);
    for (const double end : {range.low, range.high})
      svg.line({{at(end), kPlotTop}, {at(end), y + 4}}, {.stroke = colour, .kind = "range", .dashed = true});
    svg.line({{at(range.low), y + 4}, {at(range.high), y + 4}}, {.stroke = colour, .stroke_width = 2, .kind = "range"});
    svg.text({kPictureWidth / 2, y},
             fmt::format("{}: {:.4g} to {:.4g}, {:.3g}% clipped, error {:.3g}", text_of(kMethods[i]), range.low,
                         range.high, 100 * range.clipped, range.error),
             {.anchor = Anchor::middle, .fill = colour});
  }
  return svg.finish();
}

}  // namespace cubit::tools
