// What the operator means, in double precision.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops::gqa_decode {

ReferenceHead reference_head(const GqaDecode& descriptor, const double* query, const char* key, const char* value,
                             std::int64_t row_stride, int length, double softmax_scale) {
  const kv_cache::RowFormat format = kv_cache::format_of(descriptor);
  const int channels = descriptor.head_dim;
  std::vector<double> row(channels);
  std::vector<double> weights(length);
  double peak = -std::numeric_limits<double>::infinity();
  for (int token = 0; token < length; ++token) {
    kv_cache::dequantise_row(format, key + token * row_stride, row.data());
    double score = 0;
    for (int channel = 0; channel < channels; ++channel) score += query[channel] * row[channel];
    weights[token] = score * softmax_scale;
    peak = std::max(peak, weights[token]);
  }
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - peak);
  ReferenceHead result{std::vector<double>(channels), std::vector<double>(channels), peak + std::log(sum)};
  for (int token = 0; token < length; ++token) {
    kv_cache::dequantise_row(format, value + token * row_stride, row.data());
    for (int channel = 0; channel < channels; ++channel) {
      result.output[channel] += weights[token] / sum * row[channel];
      result.contributions[channel] += weights[token] / sum * std::fabs(row[channel]);
    }
  }
  if (length == 0) result.lse = -std::numeric_limits<double>::infinity();
  return result;
}

}  // namespace cubit::ops::gqa_decode
