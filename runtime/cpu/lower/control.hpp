// Cuts a function's control flow into segments. Each segment is compiled to one function, and warps are scheduled
// between segments.
#pragma once

#include <vector>

#include "runtime/cpu/ptx/blocks.hpp"

namespace cubit::runtime::cpu {

/// What happens at the end of a segment.
enum class End : std::uint8_t {
  jump,    ///< continue at `next`
  branch,  ///< the lanes that the code returns go to `target`, and all other lanes go to `next`
  leave,   ///< the lanes that the code returns are done, and all other lanes go to `next`
  wait,    ///< the last instruction may make the warp wait; then continue at `next`
};

inline constexpr int kEnd = -1;  ///< segment index of the function's end

/// Instructions [first, last): a basic block, or a part of one between instructions that may wait.
struct Segment {
  int first = 0;
  int last = 0;
  End end = End::jump;
  int target = kEnd;
  int next = kEnd;
  int reconverge = kEnd;      ///< where lanes that diverge at the branch reconverge
  std::vector<int> live_out;  ///< registers that a later segment may read
};

/// True if a warp may have to wait for other warps at this instruction.
bool may_wait(const ptx::Instruction& instruction);
/// True for waiting instructions with a result. Such an instruction is alone in its segment and is executed again after
/// the wait.
bool is_retried(const ptx::Instruction& instruction);

/// Registers that an instruction reads and writes. The guard predicate is a read.
struct Accesses {
  std::vector<int> reads;
  std::vector<int> writes;
};
Accesses accesses_of(const ptx::Instruction& instruction);

std::vector<Segment> build_segments(const ptx::Function& function);

}  // namespace cubit::runtime::cpu
