#include "tools/calibrate/report.hpp"

#include <fmt/format.h>

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
