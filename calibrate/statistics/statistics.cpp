#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/parallel.hpp"
#include "calibrate/errors.hpp"
#include "calibrate/statistics/parts.hpp"

namespace cubit::calibrate {
namespace {

constexpr std::size_t kBlock = 4096;                                     ///< decoded values that stay in the L1 cache
constexpr std::uint64_t kLeastValuesPerThread = std::uint64_t{1} << 18;  ///< worth a thread and a merge

/// NaNs are in neither minimum nor maximum; infinities are in both, and the caller leaves them out. Eight lanes let a
/// compiler without fast-math flags use vector registers. A product with zero is NaN for NaNs and infinities.
template <class Value>
Extent<Value> extent_of(std::span<const Value> values) {
  constexpr std::size_t kLanes = 8;
  Value low[kLanes];
  Value high[kLanes];
  Value zero[kLanes] = {};
  std::fill_n(low, kLanes, std::numeric_limits<Value>::infinity());
  std::fill_n(high, kLanes, -std::numeric_limits<Value>::infinity());
  const auto take = [&](std::size_t lane, Value value) {
    low[lane] = value < low[lane] ? value : low[lane];
    high[lane] = value > high[lane] ? value : high[lane];
    zero[lane] += value * 0;
  };
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(lane, values[i + lane]);
  for (; i < values.size(); ++i) take(0, values[i]);
  return {*std::min_element(low, low + kLanes), *std::max_element(high, high + kLanes),
          std::all_of(zero, zero + kLanes, [](Value lane) { return lane == 0; })};
}

/// The extent of the finite values among `values`.
template <class Value>
Extent<Value> finite_extent_of(std::span<const Value> values) {
  Extent<Value> extent;
  for (const Value value : values) {
    if (!std::isfinite(value)) {
      extent.is_finite = false;
      continue;
    }
    extent.minimum = std::min(extent.minimum, value);
    extent.maximum = std::max(extent.maximum, value);
  }
  return extent;
}

}  // namespace

void Statistics::Parts::set_channels(std::uint64_t width) { channels.resize(width, collect.moments); }

void Statistics::Parts::merge(const Parts& other) {
  batches += other.batches;
  tokens += other.tokens;
  count += other.count;
  non_finite += other.non_finite;
  minimum = std::min(minimum, other.minimum);
  maximum = std::max(maximum, other.maximum);
  moments.merge(other.moments);
  histogram.merge(other.histogram);
  token_ranges.merge(other.token_ranges);
  channels.merge(other.channels);
}

/// Adds finite values to what the whole tensor has.
template <class Value>
void Statistics::Parts::add_block(std::span<const Value> values, const Extent<Value>& extent) {
  count += values.size();
  minimum = std::min<double>(minimum, extent.minimum);
  maximum = std::max<double>(maximum, extent.maximum);
  if (collect.moments) moments.add(values);
  if (!collect.histogram || values.empty()) return;
  histogram.cover(std::max(std::abs(extent.minimum), std::abs(extent.maximum)));
  histogram.add(values);
}

template <class Value>
void Statistics::Parts::add_token(std::size_t first_channel, std::span<const Value> values,
                                  const Extent<Value>& extent) {
  channels.add(first_channel, values, extent.is_finite);
  if (extent.minimum > extent.maximum) return;
  token_has_values_ = true;
  token_magnitude_ = std::max<double>({token_magnitude_, std::abs(extent.minimum), std::abs(extent.maximum)});
}

void Statistics::Parts::end_token() {
  if (token_has_values_) {
    token_ranges.cover(token_magnitude_);
    token_ranges.add(std::span<const double>(&token_magnitude_, 1));
  }
  ++tokens;
  token_magnitude_ = 0;
  token_has_values_ = false;
}

/// Decodes whole tokens, or parts of one, block by block.
template <class Value>
void Statistics::Parts::add_values(ValueType type, std::span<const std::byte> data) {
  const std::size_t width = channels.minimum.size();
  const std::size_t elements = data.size() / bytes_of(type);
  const std::size_t whole = width <= kBlock ? kBlock / width * width : kBlock;
  std::vector<Value> buffer(kBlock);
  std::size_t channel = 0;
  for (std::size_t begin = 0; begin < elements;) {
    const std::size_t size = std::min({whole, elements - begin, width <= kBlock ? whole : width - channel});
    const std::span<Value> values(buffer.data(), size);
    decode(type, data.data() + begin * bytes_of(type), values);
    const Extent<Value> extent = extent_of(std::span<const Value>(values));
    for (std::size_t i = 0; i < size;) {
      const std::size_t part = std::min(size - i, width - channel);
      const std::span<const Value> token(values.subspan(i, part));
      add_token(channel, token, !extent.is_finite ? finite_extent_of(token) : part == size ? extent : extent_of(token));
      i += part;
      channel = (channel + part) % width;
      if (channel == 0) end_token();
    }
    if (extent.is_finite) {
      add_block(std::span<const Value>(values), extent);
    } else {
      const auto end = std::remove_if(values.begin(), values.end(), [](Value value) { return !std::isfinite(value); });
      const std::span<const Value> kept(values.begin(), end);
      non_finite += size - kept.size();
      add_block(kept, extent_of(kept));
    }
    begin += size;
  }
}

void Statistics::Parts::add_tokens(ValueType type, std::span<const std::byte> data) {
  type == ValueType::f64 ? add_values<double>(type, data) : add_values<float>(type, data);
  channels.flush();
}

Statistics::Statistics(Collect collect) : parts_(std::make_unique<Parts>(collect)) {}
Statistics::Statistics(Statistics&&) noexcept = default;
Statistics& Statistics::operator=(Statistics&&) noexcept = default;
Statistics::~Statistics() = default;

void Statistics::Parts::add_batch(const Tensor& batch, int threads) {
  const ValueType type = parse_value_type(batch.type);
  const std::uint64_t elements = require_size(batch);
  const std::uint64_t width = batch.shape.empty() ? 1 : static_cast<std::uint64_t>(batch.shape.back());
  if (!channels.minimum.empty() && width != channels.minimum.size())
    refuse("a batch of " + std::to_string(width) + " channels", "does not fit the earlier batches",
           "give tensors whose last dimension is " + std::to_string(channels.minimum.size()));
  ++batches;
  if (elements == 0) return;
  if (channels.minimum.empty()) set_channels(width);
  const std::uint64_t parts = std::min({static_cast<std::uint64_t>(std::max(threads, 1)), elements / width,
                                        std::max<std::uint64_t>(1, elements / kLeastValuesPerThread)});
  parts == 1 ? add_tokens(type, batch.data) : add_in_parallel(type, batch.data, parts);
}

/// Adds equal shares of the tokens to statistics of their own, then merges these in order.
void Statistics::Parts::add_in_parallel(ValueType type, std::span<const std::byte> data, std::uint64_t shares) {
  const std::uint64_t width = channels.minimum.size();
  const std::uint64_t token_bytes = width * bytes_of(type);
  const std::uint64_t rows = data.size() / token_bytes;
  std::vector<Parts> partial(shares, Parts(collect));
  std::atomic<std::uint64_t> next{0};
  on_threads(shares, [&](std::size_t) {
    for (std::uint64_t i = next++; i < shares; i = next++) {
      const std::uint64_t begin = rows * i / shares;
      const std::uint64_t end = rows * (i + 1) / shares;
      partial[i].set_channels(width);
      partial[i].add_tokens(type, data.subspan(begin * token_bytes, (end - begin) * token_bytes));
    }
  });
  for (const Parts& part : partial) merge(part);
}

void Statistics::add(const Tensor& batch, int threads) {
  at_surface([&] { parts_->add_batch(batch, threads); });
}

void Statistics::merge(const Statistics& other) {
  at_surface([&] {
    if (other.collect().histogram != collect().histogram || other.collect().moments != collect().moments)
      refuse("statistics", "were not collected with the same parts", "merge statistics of the same Collect");
    if (other.channels() == 0) {
      parts_->batches += other.batches();
      return;
    }
    if (channels() == 0) parts_->set_channels(other.channels());
    if (other.channels() != channels())
      refuse("statistics of " + std::to_string(other.channels()) + " channels",
             "cannot be merged with statistics of " + std::to_string(channels()), "merge statistics of the same layer");
    parts_->merge(*other.parts_);
  });
}

const Collect& Statistics::collect() const { return parts_->collect; }
std::uint64_t Statistics::batches() const { return parts_->batches; }
std::uint64_t Statistics::tokens() const { return parts_->tokens; }
std::uint64_t Statistics::channels() const { return parts_->channels.minimum.size(); }
std::uint64_t Statistics::count() const { return parts_->count; }
std::uint64_t Statistics::non_finite() const { return parts_->non_finite; }
double Statistics::minimum() const { return count() == 0 ? 0 : parts_->minimum; }
double Statistics::maximum() const { return count() == 0 ? 0 : parts_->maximum; }
Moments Statistics::moments() const { return parts_->moments.moments(count()); }
std::span<const double> Statistics::channel_minima() const { return parts_->channels.minimum; }
std::span<const double> Statistics::channel_maxima() const { return parts_->channels.maximum; }
std::vector<Moments> Statistics::channel_moments() const { return parts_->channels.moments(tokens()); }

std::vector<double> Statistics::channel_magnitudes() const {
  std::vector<double> magnitudes(channels());
  for (std::size_t i = 0; i < magnitudes.size(); ++i)
    magnitudes[i] = std::max({0.0, -parts_->channels.minimum[i], parts_->channels.maximum[i]});
  return magnitudes;
}

Histogram Statistics::histogram() const { return parts_->histogram.view(); }
Histogram Statistics::token_ranges() const { return parts_->token_ranges.view(); }

}  // namespace cubit::calibrate
