// When the next of several things is due that are to happen an interval apart; by a clock, in any unit. Of copy_pacing.cuh,
// and of the host's tests.
#pragma once

#include "core/shared_code.h"

namespace cubit {

struct DueTime {
  unsigned long long at;
  unsigned interval;

  /// Whether it is time, or past it; then the next is due an interval later. Whoever is late catches up; nobody waits
  /// for longer than an interval, for then the clock has been set back.
  CUBIT_SHARED_CODE bool has_come(unsigned long long now) {
    const auto left = static_cast<long long>(at - now);
    if (left > 0 && left <= interval) return false;
    at = (left > 0 ? now : at) + interval;
    return true;
  }
};

}  // namespace cubit
