// Compares the outputs of gqa_decode with the reference: the error and the tolerance of each query head.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/parallel.hpp"
#include "check/gqa_decode/problem.hpp"

namespace cubit::check::gqa_decode {
namespace {

constexpr double kTolerance = 3e-3;  // bf16 rounds the outputs, or the weights and values
constexpr double kTightTolerance =
    1e-3;  // every operand is fp16, or is converted to fp16 exactly, as 4-bit and 8-bit integers are
constexpr double kRoundedWeights = 8e-4;  // three times the mean rounding error of an fp16 weight and of an fp16 output
// Three standard deviations of an fp16 rounding error, whose mean square over a binade is (0.42 * 2^-11)^2. The
// rounding error of a sum stays below this bound in all but a few of a thousand heads.
constexpr double kRoundedOperand = 3 * 0.42 * 0x1p-11;
// The share of the usual tolerance that is left for errors other than the rounding of the output.
constexpr double kBesidesRounding = 1. / 3;

double tolerance_of(const GqaDecode& descriptor) {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const bool has_bf16 =
      descriptor.output == Element::bf16 || formats.key.kv == KvFormat::bf16 || formats.value.kv == KvFormat::bf16;
  return has_bf16 ? kTolerance : kTightTolerance;
}

double norm(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

/// The norm of the numbers among the values. Relative to a NaN or an infinity no error would count.
double norm_of_finite(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return norm(values);
}

/// Whether both are NaN, or the same infinity.
bool are_same_none(double got, double expected) {
  return (std::isnan(got) && std::isnan(expected)) || (std::isinf(got) && got == expected);
}

/// The tolerance of one head. Errors are relative to `scale`; `rounding` is the error that the reference has after it
/// is rounded to the output's type.
///
/// Softmax weights are rounded to fp16. If the contributions of a few tokens cancel, as in constant rows, the rounding
/// errors of their weights do not cancel: `token_norm` measures these errors as if the contributions were independent.
/// For int4_rows the kernel also rounds the products weight * scale, which multiply nibble - 7.5; `centred_norm`
/// measures that error. The output's rounding is the third error. The three are independent, so their squares are
/// added.
double tolerance_of_head(const GqaDecode& descriptor, const ReferenceHead& reference, double scale, double rounding) {
  const double usual = tolerance_of(descriptor);
  double tolerance = usual;
  if (!std::isfinite(rounding)) return usual;  // the reference overflows the output's type; that widens no tolerance
  if (usual == kTightTolerance) {
    const double weights = relative_error(reference.token_norm, scale);
    const double products = relative_error(reference.centred_norm, scale);
    double expected = kRoundedWeights * weights;
    if (products > 0)
      expected = std::max(expected, std::hypot(rounding, kRoundedOperand * weights, kRoundedOperand * products));
    tolerance = std::clamp(expected, kTightTolerance, kTolerance);
  }
  // If a few channels dominate the norm, their rounding alone is up to half a unit in the last place, 2^-8 for bf16. If
  // the outputs are subnormal, that holds for every channel. The tolerance is then this rounding and kBesidesRounding.
  return std::max(tolerance, rounding + kBesidesRounding * usual);
}

/// The smallest normal number. A sink may take so much weight that a head's output is smaller than this number.
double smallest_normal(Element element) { return element == Element::fp16 ? 0x1p-14 : 0x1p-126; }

}  // namespace

HeadRows GqaProblem::rows_of(std::size_t which, const KvHead& place) const {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor_);
  const kv_cache::RowFormat format = formats[which];
  const auto* rows = static_cast<const char*>(cache(which).data);
  const std::int64_t pitch = shape_.row_pitch(formats, which) * format.element_bytes();
  HeadRows found;
  found.row = [=, this](int token) { return rows + shape_.row(place.sequence, token, place.head) * pitch; };
  if (!format.has_scales()) return found;
  const auto* first = static_cast<const char*>(find(kv_cache::kScaleNames[which])->data);
  found.scales = [=, this](int token) {
    const std::int64_t row = shape_.row(place.sequence, token, place.head);
    return first + shape_.scale_index(formats, which, row) * format.scale_bytes();
  };
  return found;
}

QueryRow GqaProblem::query_row(std::int64_t item, double* channels) const {
  const std::int64_t query_token = item / query_heads();  // counted over all sequences
  const int length = this->length(query_token / descriptor_.query_tokens);
  const auto token = static_cast<int>(query_token % descriptor_.query_tokens);
  const Tensor* const trees = find("mask");
  const std::uint32_t mask = trees == nullptr ? 0 : static_cast<const std::uint32_t*>(trees->data)[query_token];
  const auto* raw = static_cast<const std::uint16_t*>(query().data) + item * descriptor_.head_dim;
  for (int i = 0; i < descriptor_.head_dim; ++i) channels[i] = to_double(descriptor_.query, raw[i]);

  QueryRow row = {channels, score_rules(item % query_heads())};
  row.rules.query_position = std::max(0, length - descriptor_.query_tokens + token);
  row.is_visible = [=, this](int position) { return attends_to(descriptor_, length, token, mask, position); };
  return row;
}

void GqaProblem::expect_heads(const KvHead& place, int first, int count, std::span<ExpectedHead> expected) const {
  std::vector<double> channels(static_cast<std::size_t>(count) * descriptor_.head_dim);
  std::vector<std::int64_t> items;
  std::vector<QueryRow> queries;
  for (int row = first; row < first + count; ++row) {
    const std::int64_t token = place.sequence * descriptor_.query_tokens + row / descriptor_.heads_per_kv;
    const std::int64_t head = place.head * descriptor_.heads_per_kv + row % descriptor_.heads_per_kv;
    items.push_back(token * query_heads() + head);
    queries.push_back(query_row(items.back(), channels.data() + queries.size() * descriptor_.head_dim));
  }
  std::vector<ReferenceHead> references = reference_heads(descriptor_, queries, rows_of(0, place), rows_of(1, place),
                                                          length(place.sequence), numbers_.softmax_scale);
  for (std::size_t i = 0; i < items.size(); ++i) expected[items[i]] = expected_head(std::move(references[i]));
}

GqaProblem::ExpectedHead GqaProblem::expected_head(ReferenceHead reference) const {
  std::vector<double> roundings;
  for (const double exact : reference.output) {
    const std::uint16_t rounded = from_float(descriptor_.output, static_cast<float>(exact));
    if (!std::isfinite(exact)) continue;
    roundings.push_back(
        difference_of(descriptor_.output, to_double(descriptor_.output, rounded), exact, tolerance_of(descriptor_)));
  }
  double scale = std::max(norm_of_finite(reference.output), 0.1 * norm_of_finite(reference.contributions));
  if (descriptor_.sinks) scale = std::max(scale, std::sqrt(value_channels()) * smallest_normal(descriptor_.output));
  const double tolerance = tolerance_of_head(descriptor_, reference, scale, relative_error(norm(roundings), scale));
  return {std::move(reference.output), reference.lse, scale, tolerance};
}

const std::vector<GqaProblem::ExpectedHead>& GqaProblem::expected() const {
  std::call_once(has_expected_, [&] {
    std::vector<ExpectedHead> heads(batch() * descriptor_.query_tokens * query_heads());
    // A unit of work is some of the query rows of one KV head: many, since they share the dequantised cache, but few
    // enough that every processor has work.
    const int query_rows = descriptor_.query_tokens * descriptor_.heads_per_kv;
    const auto share = static_cast<std::int64_t>(heads.size() / processors());
    const auto rows = static_cast<int>(std::clamp<std::int64_t>(share, 1, kMostQueryRows));
    const int units = (query_rows + rows - 1) / rows;  // per KV head
    parallel_for(batch() * kv_heads() * units, [&](std::int64_t unit) {
      const KvHead place = {unit / units / kv_heads(), unit / units % kv_heads()};
      const int first = static_cast<int>(unit % units) * rows;
      expect_heads(place, first, std::min(rows, query_rows - first), heads);
    });
    expected_ = std::move(heads);
  });
  return expected_;
}

GqaProblem::HeadError GqaProblem::compare_head(std::int64_t item, const ExpectedHead& expected,
                                               std::span<const void* const> got) const {
  const int channels = value_channels();
  const auto* output = static_cast<const std::uint16_t*>(got[0]) + item * channels;
  std::vector<double> difference(channels);
  // Kernels add the shifts of all groups of an int4_rows value in one product, in which a NaN of one group spreads.
  const bool nan_spreads =
      kv_cache::formats_of(descriptor_).value.kv == KvFormat::int4_rows &&
      std::any_of(expected.output.begin(), expected.output.end(), [](double value) { return std::isnan(value); });
  for (int channel = 0; channel < channels; ++channel) {
    const double found = to_double(descriptor_.output, output[channel]);
    const double wanted = expected.output[channel];
    if (are_same_none(found, wanted) || (nan_spreads && std::isnan(found))) continue;
    difference[channel] = difference_of(descriptor_.output, found, wanted, tolerance_of(descriptor_));
  }
  const HeadError error{relative_error(norm(difference), expected.scale), expected.tolerance};
  if (got.size() == 1) return error;
  const double lse = static_cast<const float*>(got[1])[item];
  if (lse == expected.lse || are_same_none(lse, expected.lse)) return error;
  // The error of the log-sum-exp is absolute. Its tolerance grows with the rounding of float scores of this size.
  constexpr double kScoreRounding = 0x1p-18;
  const double size = std::isfinite(expected.lse) ? std::fabs(expected.lse) : 0;
  const HeadError error_of_lse{relative_error(std::fabs(lse - expected.lse), 1),
                               tolerance_of(descriptor_) + size * kScoreRounding};
  return error_of_lse.share() > error.share() ? error_of_lse : error;
}

Problem::Comparison GqaProblem::compare(std::span<const void* const> got) const {
  if (!descriptor_.score.empty()) {
    throw Failure(Status::unsupported, descriptor_.text(), "the reference does not compute a user's device code",
                  "compare with results of your own");
  }
  if (got.size() != outputs_.size()) {
    reject(fmt::format("{} outputs", got.size()), fmt::format("this problem has {}", outputs_.size()));
  }
  const std::vector<ExpectedHead>& heads = expected();
  std::vector<HeadError> errors(heads.size());
  constexpr std::int64_t kHeadsOfThread = 64;
  const auto compare_one = [&](std::int64_t item) { errors[item] = compare_head(item, heads[item], got); };
  parallel_for(static_cast<std::int64_t>(heads.size()), compare_one, kHeadsOfThread);
  if (errors.empty()) return {0, tolerance_of(descriptor_), "none"};
  const auto worst = std::max_element(errors.begin(), errors.end(),
                                      [](const auto& a, const auto& b) { return a.share() < b.share(); });
  const std::int64_t item = worst - errors.begin();
  const std::int64_t query_token = item / query_heads();
  const int tokens = descriptor_.query_tokens;
  std::string place = fmt::format("sequence {}, ", query_token / tokens);
  if (tokens > 1) place += fmt::format("query token {}, ", query_token % tokens);
  place += fmt::format("head {}", item % query_heads());
  return {worst->error, worst->tolerance, std::move(place)};
}

}  // namespace cubit::check::gqa_decode
