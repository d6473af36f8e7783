// Rounding as the kernels round.
#pragma once

namespace cubit::check {

/// Rounds half to even. The magnitude of `x` is below 2^22, or infinite, or `x` is NaN. Without SSE4.1 the compiler
/// calls a function of the C library for std::nearbyint; this sum takes two instructions and vectorises.
inline float round_half_even(float x) {
  constexpr float kUnits = 0x1.8p23f;  // the neighbours of this number are 1 apart
  return x + kUnits - kUnits;
}

}  // namespace cubit::check
