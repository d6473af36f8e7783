// Runs one warp through its segments, with divergence and reconvergence of lanes, until the warp must wait or its turn
// ends.
#pragma once

#include "runtime/cpu/execute/frame.hpp"

namespace cubit::runtime::cpu {

/// Runs the warp until it waits, ends or fails, or until it has jumped backwards so often that other warps need a turn.
void run_warp(Warp& warp);

/// Ends the turn at the next backward jump, because the warp polls for something that has not happened yet.
void end_turn_soon(Warp& warp);

/// Lets the warp's try_wait return false, even though other warps may have had no turn to make it true.
void refuse(Warp& warp);

/// A hash of all state that decides how the warp continues, except memory. Never 0.
std::uint64_t fingerprint(const Warp& warp);

}  // namespace cubit::runtime::cpu
