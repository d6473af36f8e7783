// A function's control flow as the warp scheduler walks it: segments, each compiled to one function.
#pragma once

#include <vector>

#include "runtime/cpu/ptx/blocks.hpp"

namespace cubit::runtime::cpu {

enum class End : std::uint8_t {
  jump,    ///< to next
  branch,  ///< the lanes that the code returns go to target, the others to next
  leave,   ///< the lanes that the code returns are done, the others go to next
  wait,    ///< its last instruction may have made the warp wait; then next
};

inline constexpr int kEnd = -1;  ///< as a segment: the end of the function

/// Instructions [first, last). A basic block, or what lies between the waits of one.
struct Segment {
  int first = 0;
  int last = 0;
  End end = End::jump;
  int target = kEnd;
  int next = kEnd;
  int reconverge = kEnd;      ///< where lanes that the branch separates meet
  std::vector<int> live_out;  ///< registers that a later segment may read
};

/// Instructions at which a warp may have to wait for others.
bool may_wait(const ptx::Instruction& instruction);
/// Those of them that are executed again, alone in their segment, when the waiting is over: they have a result.
bool is_retried(const ptx::Instruction& instruction);

/// Registers that an instruction reads and writes; the guard is a read.
struct Accesses {
  std::vector<int> reads;
  std::vector<int> writes;
};
Accesses accesses_of(const ptx::Instruction& instruction);

std::vector<Segment> build_segments(const ptx::Function& function);

}  // namespace cubit::runtime::cpu
