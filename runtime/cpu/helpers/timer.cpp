// What time it is. PTX ISA, "Special Registers".
#include <chrono>

#include "runtime/cpu/helpers/helpers.hpp"

namespace cubit::runtime::cpu::helpers {

/// That of the machine's clock which never goes back.
void read_timer(Warp& warp, Mask mask, const Site&) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  for_lanes(mask, [&](int lane) { result<std::uint64_t>(warp).set(lane, static_cast<std::uint64_t>(count)); });
}

}  // namespace cubit::runtime::cpu::helpers
