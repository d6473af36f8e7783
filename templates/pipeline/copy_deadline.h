// Deadline of the next event when events happen one interval apart, measured by a clock in any unit. Used by
// copy_pacing.cuh and by tests on the host.
#pragma once

#include "core/shared_code.h"

namespace cubit {

/// Time at which the next copy may start.
struct CopyDeadline {
  unsigned long long at;
  unsigned interval;

  /// Returns whether the deadline has passed, and if so sets the next deadline one interval later. A caller that is
  /// late catches up. No caller waits longer than one interval: a longer wait would mean that the clock was set back.
  CUBIT_SHARED_CODE bool has_passed(unsigned long long now) {
    const auto left = static_cast<long long>(at - now);
    if (left > 0 && left <= interval) return false;
    at = (left > 0 ? now : at) + interval;
    return true;
  }
};

}  // namespace cubit
