// One warp on its way through the segments: lanes part and meet again, until the warp has to wait or its turn is over.
#pragma once

#include "runtime/cpu/execute/frame.hpp"

namespace cubit::runtime::cpu {

/// Until it waits, ends, fails, or has jumped backwards so often that the others of its cluster should have a turn.
void run_warp(Warp& warp);

/// The next backward jump ends the turn: the warp asked for something that is not there yet.
void end_turn_soon(Warp& warp);

/// Its try_wait gives false, although others may have had no chance to make it true.
void refuse(Warp& warp);

/// Of everything that decides how the warp goes on, but for memory. Never 0.
std::uint64_t fingerprint(const Warp& warp);

}  // namespace cubit::runtime::cpu
