// What a launch is watched for: the rules of memory, counters, or both.
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

/// Null if nobody checks.
inline Checker* checker_of(const Warp& warp) {
  return warp.watch != nullptr && warp.watch->checker ? &*warp.watch->checker : nullptr;
}

}  // namespace cubit::runtime::cpu
