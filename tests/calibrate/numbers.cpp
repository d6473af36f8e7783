// Prints statistics and ranges of raw numbers as JSON: calibrate_numbers TYPE TOKENS CHANNELS PERCENTILE FILE PARTS.
// The tokens are added in PARTS batches, each to statistics of its own, which are merged from the last to the first.
#include <cstdlib>
#include <cubit/calibrate.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using namespace cubit::calibrate;

nlohmann::json histogram_json(const Histogram& histogram) {
  return {{"exponent", histogram.exponent}, {"positive", histogram.positive}, {"negative", histogram.negative}};
}

nlohmann::json ranges_of(const Statistics& statistics, double percentile) {
  nlohmann::json ranges;
  for (const Format format : {Format::int8, Format::int8_asymmetric, Format::e4m3})
    for (const Method method : {Method::minmax, Method::percentile, Method::entropy, Method::mse}) {
      const Range range = choose_range(statistics, {method, format, percentile});
      ranges[std::string(text_of(format))][std::string(text_of(method))] = {
          {"low", range.low},         {"high", range.high},  {"scale", range.scale}, {"zero_point", range.zero_point},
          {"clipped", range.clipped}, {"error", range.error}};
    }
  return ranges;
}

Statistics statistics_of(const std::string& type, std::int64_t tokens, std::int64_t channels, const std::string& bytes,
                         std::int64_t parts) {
  const std::size_t token_bytes = bytes.size() / static_cast<std::size_t>(tokens);
  Statistics merged;
  for (std::int64_t part = parts - 1; part >= 0; --part) {
    const std::int64_t begin = tokens * part / parts;
    const std::int64_t end = tokens * (part + 1) / parts;
    const std::vector<std::int64_t> shape = {end - begin, channels};
    const std::span data(bytes.data() + static_cast<std::size_t>(begin) * token_bytes,
                         static_cast<std::size_t>(end - begin) * token_bytes);
    Statistics one;
    one.add({type, shape, std::as_bytes(data)});
    merged.merge(one);
  }
  return merged;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  std::ifstream file(argv[5], std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const Statistics statistics =
      statistics_of(argv[1], std::atoll(argv[2]), std::atoll(argv[3]), bytes, std::atoll(argv[6]));
  nlohmann::json channels = nlohmann::json::array();
  const auto channel_moments = statistics.channel_moments();
  for (std::size_t i = 0; i < statistics.channels(); ++i)
    channels.push_back({statistics.channel_minima()[i], statistics.channel_maxima()[i], channel_moments[i].mean,
                        channel_moments[i].variance});
  const Moments moments = statistics.moments();
  const nlohmann::json result = {{"minimum", statistics.minimum()},
                                 {"maximum", statistics.maximum()},
                                 {"mean", moments.mean},
                                 {"variance", moments.variance},
                                 {"tokens", statistics.tokens()},
                                 {"channels", channels},
                                 {"histogram", histogram_json(statistics.histogram())},
                                 {"token_ranges", histogram_json(statistics.token_ranges())},
                                 {"ranges", ranges_of(statistics, std::atof(argv[4]))}};
  std::cout << result.dump() << "\n";
  return 0;
}
