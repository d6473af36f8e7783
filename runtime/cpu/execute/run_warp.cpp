// Runs a warp with a stack of paths. When lanes diverge, the current path waits at the branch's immediate
// post-dominator with all its lanes, and the two sides are pushed on top. A path that reaches that point is popped.
#include "runtime/cpu/execute/run_warp.hpp"

#include <algorithm>

#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/program.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu {
namespace {

constexpr std::uint32_t kJumpsPerTurn = 4096;

void split(Warp& warp, const Segment& segment, Mask taken) {
  Path& top = warp.paths.back();
  const Mask others = top.mask & ~taken;
  if (others == 0 || taken == 0) {
    top.segment = taken == 0 ? segment.next : segment.target;
    return;
  }
  const int meet = segment.reconverge;
  if (meet == top.until) {
    warp.paths.pop_back();  // no instruction is left where the lanes reconverge
  } else {
    top.segment = meet;
  }
  warp.paths.push_back({segment.next, meet, others});
  warp.paths.push_back({segment.target, meet, taken});
}

void leave(Warp& warp, const Segment& segment, Mask leaving) {
  warp.paths.back().segment = segment.next;
  warp.alive &= ~leaving;
  for (Path& path : warp.paths) path.mask &= ~leaving;
  try_to_open(*warp.cta->cluster);
}

/// Makes the top path's segment current. Returns false if no path is left.
bool find_path(Warp& warp) {
  while (!warp.paths.empty()) {
    const Path& top = warp.paths.back();
    if (top.segment != top.until && top.segment != kEnd && top.mask != 0) return true;
    warp.paths.pop_back();
  }
  return false;
}

void step(Warp& warp) {
  const Program& program = *warp.cta->program;
  const Path top = warp.paths.back();
  warp.segment = top.segment;
  const auto index = static_cast<std::size_t>(top.segment);
  const Segment& segment = program.segments[index];
  if (warp.watch != nullptr && warp.watch->counters) warp.watch->counters->segment(top.segment);
  const Mask returned = program.code[index](&warp, warp.registers, top.mask) & top.mask;
  if (warp.failure) return;
  switch (segment.end) {
    case End::jump:
      warp.paths.back().segment = segment.next;
      break;
    case End::branch:
      split(warp, segment, returned);
      break;
    case End::leave:
      leave(warp, segment, returned);
      break;
    case End::wait:
      if (!warp.retry) warp.paths.back().segment = segment.next;
      warp.retry = false;
      break;
  }
}

void mix(std::uint64_t& hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  hash ^= hash >> 29;
}

}  // namespace

void run_warp(Warp& warp) {
  warp.jumps = 0;
  while (warp.state == WarpState::ready && !warp.failure) {
    if (!find_path(warp)) return end_warp(warp);
    step(warp);
    if (warp.paths.empty() || warp.paths.back().segment > warp.segment) continue;
    if (++warp.jumps > kJumpsPerTurn) return;
  }
}

void end_turn_soon(Warp& warp) { warp.jumps = std::max(warp.jumps, kJumpsPerTurn); }

void refuse(Warp& warp) {
  warp.paths.back().segment = warp.cta->program->segments[static_cast<std::size_t>(warp.segment)].next;
  warp.state = WarpState::ready;
}

std::uint64_t fingerprint(const Warp& warp) {
  std::uint64_t hash = static_cast<std::uint64_t>(warp.state) << 32 | warp.alive;
  for (const Path& path : warp.paths) {
    mix(hash, static_cast<std::uint64_t>(path.segment) << 32 | static_cast<std::uint32_t>(path.until));
    mix(hash, path.mask);
  }
  const std::size_t bytes = warp.cta->program->layout.register_bytes;
  for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, warp.registers + i, sizeof word);
    mix(hash, word);
  }
  return hash | 1;
}

}  // namespace cubit::runtime::cpu
