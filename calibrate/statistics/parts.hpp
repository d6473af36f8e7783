// The representation of Statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <limits>
#include <span>

#include "calibrate/statistics/bins.hpp"
#include "calibrate/statistics/channels.hpp"
#include "calibrate/statistics/exact_sum.hpp"
#include "calibrate/statistics/values.hpp"

namespace cubit::calibrate {

template <class Value>
struct Extent {
  Value minimum = std::numeric_limits<Value>::infinity();
  Value maximum = -std::numeric_limits<Value>::infinity();
  bool is_finite = true;  ///< of all values
};

struct Statistics::Parts {
  explicit Parts(Collect what) : collect(what) {}

  void add_batch(const Tensor& batch, int threads);
  /// Adds tokens whose number of channels is known.
  void add_tokens(ValueType type, std::span<const std::byte> data);
  void merge(const Parts& other);
  void set_channels(std::uint64_t width);

  Collect collect;
  std::uint64_t batches = 0;
  std::uint64_t tokens = 0;
  std::uint64_t count = 0;
  std::uint64_t non_finite = 0;
  double minimum = std::numeric_limits<double>::infinity();
  double maximum = -std::numeric_limits<double>::infinity();
  ExactMoments moments;
  Bins histogram{true};
  Bins token_ranges{false};
  Channels channels;

 private:
  void add_in_parallel(ValueType type, std::span<const std::byte> data, std::uint64_t shares);
  template <class Value>
  void add_values(ValueType type, std::span<const std::byte> data);
  /// `extent` is that of the values.
  template <class Value>
  void add_block(std::span<const Value> values, const Extent<Value>& extent);
  template <class Value>
  void add_token(std::size_t first_channel, std::span<const Value> values, const Extent<Value>& extent);
  void end_token();

  double token_magnitude_ = 0;
  bool token_has_values_ = false;
};

}  // namespace cubit::calibrate
