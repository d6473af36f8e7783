#include "tools/calibrate/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

using calibrate::Method;
using Json = nlohmann::ordered_json;

Json range_json(const calibrate::Range& range, bool has_errors) {
  Json json = {{"low", range.low}, {"high", range.high}, {"scale", range.scale}, {"zero_point", range.zero_point}};
  if (has_errors) json.update({{"clipped", range.clipped}, {"error", range.error}});
  return json;
}

/// The value that a share of the sorted values does not exceed.
double quantile(const std::vector<double>& sorted, double share) {
  const auto count = static_cast<double>(sorted.size());
  return sorted[static_cast<std::size_t>(std::max(std::ceil(share * count) - 1, 0.0))];
}

/// How the largest magnitudes of the channels are spread, and the channels with the largest ones. All channels of a
/// large model would not fit in memory.
Json channels_json(const calibrate::Statistics& statistics) {
  constexpr std::size_t kOutliers = 8;
  const std::vector<double> magnitudes = statistics.channel_magnitudes();
  std::vector<double> sorted = magnitudes;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> order(magnitudes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto outliers = order.begin() + static_cast<std::ptrdiff_t>(std::min(kOutliers, order.size()));
  std::partial_sort(order.begin(), outliers, order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(-magnitudes[a], a) < std::pair(-magnitudes[b], b);
  });
  const std::vector<calibrate::Moments> moments =
      statistics.collect().moments ? statistics.channel_moments() : std::vector<calibrate::Moments>();
  Json json = {{"median", quantile(sorted, 0.5)},
               {"90%", quantile(sorted, 0.9)},
               {"99%", quantile(sorted, 0.99)},
               {"largest", sorted.back()},
               {"largest_channels", Json::array()}};
  for (auto channel = order.begin(); channel != outliers; ++channel) {
    Json one = {{"channel", *channel},
                {"minimum", statistics.channel_minima()[*channel]},
                {"maximum", statistics.channel_maxima()[*channel]}};
    if (!moments.empty()) one.update({{"mean", moments[*channel].mean}, {"variance", moments[*channel].variance}});
    json["largest_channels"].push_back(one);
  }
  return json;
}

/// How the largest magnitudes of the tokens are spread, by the upper edges of their histogram's bins.
Json tokens_json(const calibrate::Statistics& statistics) {
  const calibrate::Histogram histogram = statistics.token_ranges();
  const double largest = std::max(std::abs(statistics.minimum()), std::abs(statistics.maximum()));
  const double count = std::accumulate(histogram.positive.begin(), histogram.positive.end(), 0.0);
  const auto magnitude = [&](double share) {
    double below = 0;
    std::size_t bin = 0;
    while (bin < histogram.positive.size() && below < share * count)
      below += static_cast<double>(histogram.positive[bin++]);
    return std::min(largest, std::ldexp(static_cast<double>(bin) / calibrate::kHistogramBins, histogram.exponent));
  };
  return {{"median", magnitude(0.5)},
          {"90%", magnitude(0.9)},
          {"99%", magnitude(0.99)},
          {"99.9%", magnitude(0.999)},
          {"largest", largest}};
}

Json layer_json(const LayerReport& report, Method chosen) {
  const calibrate::Statistics& statistics = *report.statistics;
  Json json = {{"batches", statistics.batches()},
               {"tokens", statistics.tokens()},
               {"channels", statistics.channels()},
               {"minimum", statistics.minimum()},
               {"maximum", statistics.maximum()}};
  if (statistics.collect().moments) {
    const calibrate::Moments moments = statistics.moments();
    json.update({{"mean", moments.mean}, {"variance", moments.variance}});
  }
  json.update({{"scale", report.range(chosen).scale}, {"zero_point", report.range(chosen).zero_point}});
  json["channel_magnitudes"] = channels_json(statistics);
  json["token_magnitudes"] = tokens_json(statistics);
  for (const Method method : methods_of(statistics))
    json["methods"][std::string(text_of(method))] = range_json(report.range(method), statistics.collect().histogram);
  return json;
}

}  // namespace

std::span<const Method> methods_of(const calibrate::Statistics& statistics) {
  static_assert(kMethods[0] == Method::minmax);
  return std::span(kMethods).first(statistics.collect().histogram ? kMethods.size() : 1);
}

LayerReport make_report(const calibrate::NamedStatistics& layer, const calibrate::RangeChoice& choice) {
  LayerReport report{layer.layer, &layer.statistics, {}};
  try {
    for (const Method method : methods_of(layer.statistics)) {
      calibrate::RangeChoice one = choice;
      one.method = method;
      report.ranges[static_cast<std::size_t>(method)] = choose_range(layer.statistics, one);
    }
  } catch (const Error& error) {
    throw BadInput(fmt::format("layer {}, {}", layer.layer, error.given()), error.why(), error.remedy());
  }
  return report;
}

std::string report_table(const std::vector<LayerReport>& layers, const calibrate::RangeChoice& choice) {
  const bool has_errors = !layers.empty() && layers.front().statistics->collect().histogram;
  std::vector<Column> columns = {{"layer"}, {"tokens", true}, {"min", true}, {"max", true}, {"scale", true}};
  if (has_errors) columns.push_back({"clipped", true});
  for (const Method method : kMethods)
    if (has_errors) columns.push_back({fmt::format("{} error", text_of(method)), true});
  std::vector<std::vector<std::string>> rows;
  for (const LayerReport& layer : layers) {
    const calibrate::Range& chosen = layer.range(choice.method);
    std::vector<std::string> row = {
        layer.layer, std::to_string(layer.statistics->tokens()), fmt::format("{:.4g}", layer.statistics->minimum()),
        fmt::format("{:.4g}", layer.statistics->maximum()), fmt::format("{:.4g}", chosen.scale)};
    if (has_errors) row.push_back(fmt::format("{:.3g}%", 100 * chosen.clipped));
    for (const calibrate::Range& range : layer.ranges)
      if (has_errors) row.push_back(fmt::format("{:.3g}", range.error));
    rows.push_back(row);
  }
  return format_table(columns, rows);
}

Json report_json(const std::vector<LayerReport>& layers, const calibrate::RangeChoice& choice, std::size_t files) {
  Json json = {{"method", text_of(choice.method)},
               {"format", text_of(choice.format)},
               {"percentile", choice.percentile},
               {"files", files},
               {"layers", Json::object()}};
  for (const LayerReport& layer : layers) json["layers"][layer.layer] = layer_json(layer, choice.method);
  return json;
}

}  // namespace cubit::tools
