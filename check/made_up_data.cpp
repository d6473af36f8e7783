#include "check/made_up_data.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace cubit::check {

void require_made_up(const std::string& given, double bytes, const std::string& remedy, double available) {
  constexpr double kGiB = 1ULL << 30;
  constexpr double kMost = 64 * kGiB;
  if (bytes > kMost) throw Failure(Status::invalid_argument, given, "made-up data is limited to 64 GiB", remedy);
  if (bytes <= available) return;
  throw Failure(Status::invalid_argument, given,
                fmt::format("that is {:.1f} GiB, and this machine has {:.1f} GiB left", bytes / kGiB, available / kGiB),
                remedy);
}

}  // namespace cubit::check
