// Control flow of a function: basic blocks, and where diverged lanes reconverge.
#pragma once

#include <vector>

#include "runtime/cpu/ptx/ast.hpp"

namespace cubit::runtime::ptx {

/// Instructions [first, last) that are entered at the first and left after the last.
struct Block {
  int first = 0;
  int last = 0;
  std::vector<int> successors;  ///< block indices; after a guarded branch, the target and then the fall-through
  int reconverge = kNone;       ///< where lanes that diverge here reconverge; kNone: only at the function's end
};

/// Returns the blocks in the order of the text; block 0 is the entry. A function without instructions has no blocks. A
/// block ends before each label and after each bra, brx, ret, exit and trap. Lanes that leave through a guarded ret
/// create no successor.
///
/// `reconverge` is the immediate post-dominator among the paths to the function's main end, which is the last reachable
/// end. Lanes that return early or trap are not waited for. A block that cannot reach the main end has the
/// post-dominator among the paths to all other ends. Throws Failure(invalid_argument) for a branch to a label that does
/// not exist.
std::vector<Block> build_blocks(const Function& function);

/// Returns the immediate dominator of each node of a graph (Lengauer and Tarjan), without recursion. The root and
/// unreachable nodes have kNone. `successors[node]` lists nodes.
std::vector<int> immediate_dominators(int root, const std::vector<std::vector<int>>& successors);

}  // namespace cubit::runtime::ptx
