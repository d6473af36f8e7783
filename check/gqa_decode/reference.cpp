// Implements the reference of gqa_decode: attention of one head in double precision.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "check/gqa_decode/reference.hpp"

namespace cubit::check::gqa_decode {
namespace {

/// The value shift + 7.5 · scale of a channel's group, which is the middle of the 16 values that a nibble can stand
/// for. The header of an int4_rows row holds the scale and the shift of each group.
double middle_of(const kv_cache::RowFormat& format, const char* row, int channel) {
  std::uint16_t pair[2];
  std::memcpy(pair, row + 4 * (channel / (format.head_dim / format.groups)), sizeof pair);
  return to_double(Element::fp16, pair[1]) + 7.5 * to_double(Element::fp16, pair[0]);
}

}  // namespace

std::int64_t attended_tokens(std::int64_t length, std::int64_t window, std::int64_t kept_tokens) {
  if (window == 0) return length;
  return std::min(length, std::min(length, window) + std::min(length, kept_tokens));
}

/// Tokens that the query does not attend to have weight zero, and their rows are not read.
ReferenceHead reference_head(const GqaDecode& descriptor, const double* query, const HeadRows& keys,
                             const HeadRows& values, int length, double softmax_scale, const ScoreRules& rules,
                             const std::function<bool(int position)>& is_visible) {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const auto load = [](const kv_cache::RowFormat& format, const HeadRows& rows, int token, double* dst) {
    kv_cache::dequantise_row(format, rows.row(token), dst, rows.scales(token));
  };
  std::vector<double> row(formats.key.head_dim);
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  std::vector<double> weights(length, kNothing);
  const int query_position = rules.query_position < 0 ? length - 1 : rules.query_position;
  const auto is_in_window = [&](int token) {
    return rules.window == 0 || token > query_position - rules.window || token < rules.kept_tokens;
  };
  double peak = rules.sink;
  for (int token = 0; token < length; ++token) {
    if (!is_in_window(token) || (is_visible && !is_visible(token))) continue;
    load(formats.key, keys, token, row.data());
    double score = 0;
    for (std::size_t channel = 0; channel < row.size(); ++channel) score += query[channel] * row[channel];
    score *= softmax_scale;
    if (rules.soft_cap > 0) score = rules.soft_cap * std::tanh(score / rules.soft_cap);
    weights[token] = score + rules.alibi_slope * (token - query_position);
    peak = std::max(peak, weights[token]);
  }
  const int channels = formats.value.head_dim;
  row.resize(channels);
  if (peak == kNothing) return {std::vector<double>(channels), std::vector<double>(channels), kNothing};
  double sum = rules.sink == kNothing ? 0 : std::exp(rules.sink - peak);
  for (double& weight : weights) sum += weight = std::exp(weight - peak);
  const bool is_packed = formats.value.kv == KvFormat::int4_rows;
  ReferenceHead result{std::vector<double>(channels), std::vector<double>(channels), peak + std::log(sum)};
  for (int token = 0; token < length; ++token) {
    if (weights[token] == 0) continue;
    load(formats.value, values, token, row.data());
    const char* const stored = values.row(token);
    const double weight = weights[token] / sum;
    for (int channel = 0; channel < channels; ++channel) {
      const double part = weight * row[channel];
      result.output[channel] += part;
      result.contributions[channel] += std::fabs(part);
      result.token_norm += part * part;
      if (!is_packed) continue;
      const double centred = part - weight * middle_of(formats.value, stored, channel);
      result.centred_norm += centred * centred;
    }
  }
  result.token_norm = std::sqrt(result.token_norm);
  result.centred_norm = std::sqrt(result.centred_norm);
  return result;
}

}  // namespace cubit::check::gqa_decode
