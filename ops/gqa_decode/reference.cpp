// What the operator means, in double precision.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops::gqa_decode {

ReferenceHead reference_head(const GqaDecode& descriptor, const double* query, const HeadRows& keys,
                             const HeadRows& values, int length, double softmax_scale,
                             const std::function<bool(int position)>& is_seen) {
  const kv_cache::RowFormat format = kv_cache::format_of(descriptor);
  const int channels = descriptor.head_dim;
  const auto load = [&](const HeadRows& rows, int token, double* dst) {
    kv_cache::dequantise_row(format, rows.row(token), dst, rows.scales(token));
  };
  std::vector<double> row(channels);
  std::vector<double> weights(length);
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  double peak = kNothing;
  for (int token = 0; token < length; ++token) {
    weights[token] = kNothing;
    if (is_seen && !is_seen(token)) continue;
    load(keys, token, row.data());
    double score = 0;
    for (int channel = 0; channel < channels; ++channel) score += query[channel] * row[channel];
    weights[token] = score * softmax_scale;
    peak = std::max(peak, weights[token]);
  }
  if (peak == kNothing) return {std::vector<double>(channels), std::vector<double>(channels), kNothing};
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - peak);
  ReferenceHead result{std::vector<double>(channels), std::vector<double>(channels), peak + std::log(sum)};
  for (int token = 0; token < length; ++token) {
    if (weights[token] == 0) continue;
    load(values, token, row.data());
    for (int channel = 0; channel < channels; ++channel) {
      result.output[channel] += weights[token] / sum * row[channel];
      result.contributions[channel] += weights[token] / sum * std::fabs(row[channel]);
    }
  }
  return result;
}

}  // namespace cubit::ops::gqa_decode
