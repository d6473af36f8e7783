// Describes a warp's position and what it waits for, for deadlock reports.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/program.hpp"

namespace cubit::runtime::cpu {
namespace {

std::string name_of(const Warp& warp) {
  if (warp.cta->cluster->ctas.size() == 1) return fmt::format("warp {}", warp.index);
  return fmt::format("warp {} of block rank {}", warp.index, warp.cta->rank);
}

std::string position(const Warp& warp) {
  const Program& program = *warp.cta->program;
  const Segment& segment = program.segments[static_cast<std::size_t>(warp.segment)];
  const int last = std::max(segment.first, segment.last - 1);
  return program.place(program.function->body[static_cast<std::size_t>(last)]);
}

std::string named_barrier(const Warp& warp) {
  const NamedBarrier& barrier = warp.cta->barriers[warp.barrier];
  if (barrier.expected == 0) return fmt::format("waiting for barrier {}", warp.barrier);
  return fmt::format("waiting for barrier {}, where {} of {} threads have arrived", warp.barrier, barrier.arrived,
                     barrier.expected);
}

std::string phase(const Warp& warp) {
  const PhaseWait& wait = warp.phases.front();
  Mbarrier state;
  if (!read_mbarrier(wait.object, state))
    return fmt::format("waiting for an mbarrier that no longer exists, {:#x}", wait.address);
  return fmt::format(
      "waiting for the end of phase {} of the mbarrier at {:#x}, which still needs {} of {} arrivals and {} bytes",
      wait.parity ? 1 : 0, wait.address, state.missing, state.expected, state.bytes);
}

std::string reason(const Warp& warp) {
  switch (warp.state) {
    case WarpState::at_barrier:
      return named_barrier(warp);
    case WarpState::at_cluster_barrier:
      return "waiting for the cluster's barrier";
    case WarpState::at_mbarrier:
      return phase(warp);
    case WarpState::ready:
    case WarpState::done:
      break;
  }
  return "in a loop";
}

/// Diverged lanes run one side after the other here. On a GPU since Volta, every lane makes progress.
std::string others_of(const Warp& warp) {
  const Mask running = warp.paths.empty() ? warp.alive : warp.paths.back().mask;
  const Mask others = warp.alive & ~running;
  if (others == 0) return "";
  return fmt::format(
      ", while its lanes {:#010x} wait for lanes {:#010x} to reconverge: if the running lanes need the waiting lanes, "
      "this is a limit of the CPU device, which does not run lanes of a warp in turns as a GPU does",
      others, running);
}

}  // namespace

std::string describe(const Warp& warp) {
  if (warp.state == WarpState::done) return name_of(warp) + " has ended";
  return fmt::format("{} at {}, {}{}", name_of(warp), position(warp), reason(warp), others_of(warp));
}

}  // namespace cubit::runtime::cpu
