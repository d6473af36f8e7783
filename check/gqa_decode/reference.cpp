// Implements the reference of gqa_decode: attention in double precision.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "check/gqa_decode/reference.hpp"

namespace cubit::check::gqa_decode {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

/// Returns `value`, or 0 if the mask is zero. A branch would keep the compiler from using SIMD instructions.
double masked(double value, std::uint64_t mask) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & mask);
}

/// Attention of up to `Count` query rows. Every lane of an array belongs to one query row. Each lane does what a loop
/// over that query row alone would do, in the same order, so the compiler can use SIMD instructions.
template <int Count>
class Lanes {
 public:
  Lanes(const GqaDecode& descriptor, std::span<const QueryRow> queries, int length)
      : formats_(kv_cache::formats_of(descriptor)), queries_(queries), weights_(length) {}

  std::vector<ReferenceHead> attend(const HeadRows& keys, const HeadRows& values, double softmax_scale) {
    score(keys, softmax_scale);
    normalise();
    sum_values(values);
    return results();
  }

 private:
  using Row = std::array<double, Count>;                ///< one number per query row
  using Mask = std::array<std::uint64_t, Count>;        ///< all ones if the query row attends to a token, else zero
  static constexpr int kTogether = std::min(Count, 2);  ///< query rows that one instruction of SSE2 adds
  struct Channel {
    Row output{};
    Row contribution{};
  };

  int length() const { return static_cast<int>(weights_.size()); }
  int rows() const { return static_cast<int>(queries_.size()); }

  bool attends(const QueryRow& query, int token) const {
    const ScoreRules& rules = query.rules;
    const bool is_in_window =
        rules.window == 0 || token > position_of(query) - rules.window || token < rules.kept_tokens;
    return is_in_window && (!query.is_visible || query.is_visible(token));
  }
  int position_of(const QueryRow& query) const {
    return query.rules.query_position < 0 ? length() - 1 : query.rules.query_position;
  }
  static void load(const kv_cache::RowFormat& format, const HeadRows& rows, int token, std::vector<double>& row) {
    kv_cache::dequantise_row(format, rows.row(token), row.data(), rows.scales(token));
  }

  /// Sets the weights to the scores, and the peaks. Rows that no query row attends to are not read.
  void score(const HeadRows& keys, double softmax_scale) {
    const int channels = formats_.key.head_dim;
    std::vector<double> row(channels);
    std::vector<Row> query(channels);
    for (int lane = 0; lane < rows(); ++lane) {
      for (int channel = 0; channel < channels; ++channel) query[channel][lane] = queries_[lane].channels[channel];
      peak_[lane] = queries_[lane].rules.sink;
    }
    for (int token = 0; token < length(); ++token) {
      weights_[token].fill(kNothing);
      std::array<bool, Count> is_seen{};
      for (int lane = 0; lane < rows(); ++lane) is_seen[lane] = attends(queries_[lane], token);
      if (std::none_of(is_seen.begin(), is_seen.end(), [](bool seen) { return seen; })) continue;
      load(formats_.key, keys, token, row);
      Row scores{};
      for (int channel = 0; channel < channels; ++channel) {
        for (int lane = 0; lane < Count; ++lane) scores[lane] += query[channel][lane] * row[channel];
      }
      for (int lane = 0; lane < rows(); ++lane) {
        if (!is_seen[lane]) continue;
        const ScoreRules& rules = queries_[lane].rules;
        double score = scores[lane] * softmax_scale;
        if (rules.soft_cap > 0) score = rules.soft_cap * std::tanh(score / rules.soft_cap);
        weights_[token][lane] = score + rules.alibi_slope * (token - position_of(queries_[lane]));
        // A NaN stays the peak, because no comparison with it is true.
        const double weight = weights_[token][lane];
        peak_[lane] = std::isnan(weight) ? weight : std::max(peak_[lane], weight);
      }
    }
  }

  /// Turns scores into exponentials, and sums them.
  void normalise() {
    for (int lane = 0; lane < rows(); ++lane) {
      const double sink = queries_[lane].rules.sink;
      sum_[lane] = sink == kNothing ? 0 : std::exp(sink - peak_[lane]);
      for (Row& weights : weights_)
        sum_[lane] += weights[lane] = peak_[lane] == kNothing ? 0 : std::exp(weights[lane] - peak_[lane]);
    }
  }

  /// Sums the values. Tokens that a query row does not attend to have weight zero and add nothing to that row's result,
  /// whatever their values are.
  void sum_values(const HeadRows& values) {
    const int channels = formats_.value.head_dim;
    const bool is_packed = formats_.value.kv == KvFormat::int4_rows;
    channels_.resize(channels);
    std::vector<double> row(channels);
    for (int token = 0; token < length(); ++token) {
      const Row used = weights_[token];
      if (std::all_of(used.begin(), used.begin() + rows(), [](double weight) { return weight == 0; })) continue;
      Row weight{};
      Mask mask{};
      for (int lane = 0; lane < rows(); ++lane) {
        weight[lane] = used[lane] / sum_[lane];
        mask[lane] = used[lane] == 0 ? 0 : ~std::uint64_t{0};
      }
      load(formats_.value, values, token, row);
      for (int first = 0; first < Count; first += kTogether) add_value(first, row, weight, mask);
      if (is_packed) sum_centred(values.row(token), mask, weight, row);
    }
  }

  /// Adds the value of one token to the results of kTogether query rows.
  void add_value(int first, const std::vector<double>& row, const Row& weight, const Mask& mask) {
    std::array<double, kTogether> norm{};
    std::copy_n(token_norm_.begin() + first, kTogether, norm.begin());
    for (std::size_t channel = 0; channel < row.size(); ++channel) {
      Channel& sums = channels_[channel];
      for (int i = 0; i < kTogether; ++i) {
        const double part = masked(weight[first + i] * row[channel], mask[first + i]);
        sums.output[first + i] += part;
        sums.contribution[first + i] += std::fabs(part);
        norm[i] += part * part;
      }
    }
    std::copy_n(norm.begin(), kTogether, token_norm_.begin() + first);
  }

  /// Adds |weight · scale · (nibble - 7.5)|² of one token. The header of an int4_rows row holds the scale and the shift
  /// of each group. `middle` is in the middle of the 16 values that a nibble can stand for.
  void sum_centred(const char* stored, const Mask& mask, const Row& weight, const std::vector<double>& row) {
    const int width = formats_.value.head_dim / formats_.value.groups;
    Row norm = centred_norm_;
    for (int group = 0; group < formats_.value.groups; ++group) {
      std::uint16_t pair[2];
      std::memcpy(pair, stored + 4 * group, sizeof pair);
      const double middle = to_double(Element::fp16, pair[1]) + 7.5 * to_double(Element::fp16, pair[0]);
      for (int channel = group * width; channel < (group + 1) * width; ++channel) {
        for (int lane = 0; lane < Count; ++lane) {
          const double centred = weight[lane] * row[channel] - weight[lane] * middle;
          norm[lane] += masked(centred * centred, mask[lane]);
        }
      }
    }
    centred_norm_ = norm;
  }

  std::vector<ReferenceHead> results() const {
    std::vector<ReferenceHead> results(rows());
    for (int lane = 0; lane < rows(); ++lane) {
      for (const Channel& channel : channels_) {
        results[lane].output.push_back(channel.output[lane]);
        results[lane].contributions.push_back(channel.contribution[lane]);
      }
      results[lane].lse = peak_[lane] == kNothing ? kNothing : peak_[lane] + std::log(sum_[lane]);
      results[lane].token_norm = std::sqrt(token_norm_[lane]);
      results[lane].centred_norm = std::sqrt(centred_norm_[lane]);
    }
    return results;
  }

  kv_cache::CacheFormats formats_;
  std::span<const QueryRow> queries_;
  std::vector<Row> weights_;  ///< scores by token, and later the exponentials of the scores
  Row peak_{};
  Row sum_{};
  std::vector<Channel> channels_;
  Row token_norm_{};
  Row centred_norm_{};
};

}  // namespace

std::int64_t attended_tokens(std::int64_t length, std::int64_t window, std::int64_t kept_tokens) {
  if (window == 0) return length;
  return std::min(length, std::min(length, window) + std::min(length, kept_tokens));
}

std::vector<ReferenceHead> reference_heads(const GqaDecode& descriptor, std::span<const QueryRow> queries,
                                           const HeadRows& keys, const HeadRows& values, int length,
                                           double softmax_scale) {
  if (queries.size() == 1) return Lanes<1>(descriptor, queries, length).attend(keys, values, softmax_scale);
  if (queries.size() == 2) return Lanes<2>(descriptor, queries, length).attend(keys, values, softmax_scale);
  if (queries.size() <= 4) return Lanes<4>(descriptor, queries, length).attend(keys, values, softmax_scale);
  return Lanes<kMostQueryRows>(descriptor, queries, length).attend(keys, values, softmax_scale);
}

ReferenceHead reference_head(const GqaDecode& descriptor, const double* query, const HeadRows& keys,
                             const HeadRows& values, int length, double softmax_scale, const ScoreRules& rules,
                             const std::function<bool(int position)>& is_visible) {
  const QueryRow row = {query, rules, is_visible};
  return reference_heads(descriptor, {&row, 1}, keys, values, length, softmax_scale).front();
}

}  // namespace cubit::check::gqa_decode
