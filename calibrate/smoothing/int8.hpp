// INT8 with codes from -127 to 127, as the search for the factors of SmoothQuant simulates it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace cubit::calibrate {

inline constexpr float kLargestInt8Code = 127;

/// values[i] · factors[i], quantised with codes from -127 to 127 and scaled back. `largest`: of all products that share
/// the scale.
inline void quantise_smoothed(const float* values, std::span<const float> factors, float largest, float* quantised) {
  constexpr float kRound = 12582912;  // 1.5 · 2^23: adding it rounds to an integer
  const float scale = largest > 0 ? largest / kLargestInt8Code : 1;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const float code = std::clamp(values[i] * factors[i] / scale, -kLargestInt8Code, kLargestInt8Code);
    quantised[i] = (code + kRound - kRound) * scale;
  }
}

/// Whether one error is less than another. An error is NaN if the products exceed the largest float.
inline bool is_less(double error, double other) { return error < other || (std::isnan(other) && !std::isnan(error)); }

}  // namespace cubit::calibrate
