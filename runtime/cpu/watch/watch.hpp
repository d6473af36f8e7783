// Watch: the checker and the counters of a launch, each of them optional.
#pragma once

#include <optional>

#include "runtime/cpu/watch/checker.hpp"
#include "runtime/cpu/watch/counters.hpp"

namespace cubit::runtime::cpu {

struct Watch {
  std::optional<Checker> checker;
  std::optional<Counters> counters;

  void start(const Cluster& cluster) {
    if (counters) counters->start(cluster);
    if (checker) checker->start(cluster);
  }
  void request(Warp& warp, const Request& request) {
    if (counters) counters->request(request);
    if (checker) checker->request(warp, request);
  }
};

/// Returns nullptr if the launch is not checked.
inline Checker* checker_of(const Warp& warp) {
  return warp.watch != nullptr && warp.watch->checker ? &*warp.watch->checker : nullptr;
}

}  // namespace cubit::runtime::cpu
