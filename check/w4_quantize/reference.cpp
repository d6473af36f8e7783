// Implements the reference of w4_quantize, group by group, as <cubit/w4_quantize.h> defines it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.hpp"
#include "check/w4_quantize/problem.hpp"
#include "ops/element/element.hpp"

namespace cubit::check::w4_quantize {
namespace {

struct Factors {
  std::uint16_t stored_scale = 0;
  float scale = 0;
  int zero = 8;
};

/// Rounds to the nearest integer, ties to even. NaN becomes 0.
int rounded(float value) { return std::isnan(value) ? 0 : static_cast<int>(std::nearbyint(value)); }

/// The factors of a group with an infinity or NaN. Every weight of the group is then stored as 0.
Factors factors_of_none(const W4Quantize& descriptor) {
  const int zero = descriptor.fits_zeros() ? descriptor.zero_offset() : 8;
  return {0x7e00, std::numeric_limits<float>::quiet_NaN(), zero};
}

Factors fit(const W4Quantize& descriptor, const std::vector<float>& weights) {
  if (!std::all_of(weights.begin(), weights.end(), [](float weight) { return std::isfinite(weight); }))
    return factors_of_none(descriptor);
  const auto [least, largest] = std::minmax_element(weights.begin(), weights.end());
  float lowest = std::min(*least, 0.f);
  const float highest = std::max(*largest, 0.f);
  float width = 2 * std::max(highest, -lowest);
  if (descriptor.fits_zeros()) {
    if (descriptor.zero_offset() == 1) lowest = std::min(lowest, -(highest * (1.f / 14.f)));
    width = highest - lowest;
  }
  Factors factors;
  factors.stored_scale = from_float(Element::fp16, std::clamp(width / 15.f, 0x1p-24f, 65504.f));
  factors.scale = static_cast<float>(to_double(Element::fp16, factors.stored_scale));
  if (!descriptor.fits_zeros()) return factors;
  const auto least_zero = static_cast<float>(descriptor.zero_offset());
  factors.zero = std::max(rounded(std::clamp(-lowest / factors.scale, least_zero, 15.f)), descriptor.zero_offset());
  return factors;
}

int code_of(float weight, const Factors& factors) {
  if (std::isnan(factors.scale)) return 0;
  const auto zero = static_cast<float>(factors.zero);
  return rounded(std::clamp(weight / factors.scale, -zero, 15.f - zero)) + factors.zero;
}

/// The nibble of column n in a word of eight neighbouring columns: n % 8, or the permuted order of AWQ.
int nibble_of_column(const W4Quantize& descriptor, std::int64_t n) {
  constexpr int kAwqNibble[] = {0, 4, 1, 5, 2, 6, 3, 7};  // the inverse of AWQ's order 0, 2, 4, 6, 1, 3, 5, 7
  return descriptor.format == W4Format::awq ? kAwqNibble[n % 8] : static_cast<int>(n % 8);
}

class Quantiser {
 public:
  Quantiser(const W4Quantize& descriptor, const std::uint16_t* weights, std::int64_t n, std::int64_t k)
      : descriptor_(descriptor),
        weights_(weights),
        n_(n),
        k_(k),
        group_k_(descriptor.group_size == 0 ? k : descriptor.group_size) {
    const std::int64_t count = groups_of(descriptor, k) * n;
    made_.qweight.resize(n * k / 8);
    if (descriptor.stores_zeros()) made_.qzeros.resize(count / 8);
    made_.scales.resize(count);
    made_.max_error.resize(count);
    made_.rms_error.resize(count);
  }

  /// Quantises eight neighbouring columns, which share words.
  void take(std::int64_t first_n) {
    for (std::int64_t n = first_n; n < first_n + 8; ++n) {
      for (std::int64_t group = 0; group * group_k_ < k_; ++group) take_group(group, n);
    }
  }
  Quantised result() { return std::move(made_); }

 private:
  void take_group(std::int64_t group, std::int64_t n) {
    const std::int64_t size = std::min(group_k_, k_ - group * group_k_);  // the last group may be shorter
    std::vector<float> weights(size);
    for (std::int64_t i = 0; i < size; ++i)
      weights[i] = static_cast<float>(to_double(descriptor_.input, weights_[n * k_ + group * group_k_ + i]));
    const Factors factors = fit(descriptor_, weights);
    const std::int64_t at = group * n_ + n;
    made_.scales[at] = factors.stored_scale;
    if (descriptor_.stores_zeros()) {
      made_.qzeros[at / 8] |= static_cast<std::uint32_t>(factors.zero - descriptor_.zero_offset())
                              << (4 * nibble_of_column(descriptor_, n));
    }
    double squares = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const int code = code_of(weights[i], factors);
      store_code(group * group_k_ + i, n, code);
      // The product is exact, so the difference is rounded once.
      const float error = std::fabs(weights[i] - static_cast<float>(code - factors.zero) * factors.scale);
      made_.max_error[at] = std::isnan(error) ? error : std::max(made_.max_error[at], error);
      squares += double{error} * error;
    }
    made_.rms_error[at] = std::sqrt(squares / static_cast<double>(size));
  }
  void store_code(std::int64_t k, std::int64_t n, int code) {
    const bool by_n = descriptor_.format == W4Format::awq;
    std::uint32_t& word = made_.qweight[by_n ? k * (n_ / 8) + n / 8 : k / 8 * n_ + n];
    word |= static_cast<std::uint32_t>(code)
            << (4 * (by_n ? nibble_of_column(descriptor_, n) : static_cast<int>(k % 8)));
  }

  W4Quantize descriptor_;
  const std::uint16_t* weights_;
  std::int64_t n_;
  std::int64_t k_;
  std::int64_t group_k_;
  Quantised made_;
};

}  // namespace

Quantised quantise(const W4Quantize& descriptor, const std::uint16_t* weights, std::int64_t n, std::int64_t k) {
  Quantiser quantiser(descriptor, weights, n, k);
  parallel_for(n / 8, [&](std::int64_t i) { quantiser.take(8 * i); });
  return quantiser.result();
}

}  // namespace cubit::check::w4_quantize
