// Reads the time for the special registers %clock64 and %globaltimer. PTX ISA, "Special Registers".
#include <chrono>

#include "runtime/cpu/helpers/helpers.hpp"

namespace cubit::runtime::cpu::helpers {

/// The time comes from the machine's monotonic clock.
void read_timer(Warp& warp, Mask mask, const Site&) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  for_lanes(mask, [&](int lane) { result<std::uint64_t>(warp).set(lane, static_cast<std::uint64_t>(count)); });
}

}  // namespace cubit::runtime::cpu::helpers
