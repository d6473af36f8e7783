// Control flow of a function: basic blocks, and where diverged lanes meet again.
#pragma once

#include <vector>

#include "runtime/cpu/ptx/ast.hpp"

namespace cubit::runtime::ptx {

/// Instructions [first, last) that are entered at the first and left after the last.
struct Block {
  int first = 0;
  int last = 0;
  std::vector<int> successors;  ///< block indices; of a guarded branch: the target, then the fall-through
  int reconverge = kNone;       ///< where lanes that part here meet again; kNone: only at the function's end
};

/// Blocks in the order of the text, block 0 the entry; none for a function without instructions. A block ends before
/// each label and after each bra, brx, ret, exit and trap. Lanes that leave by a guarded ret are no successor.
///
/// `reconverge` is the immediate post-dominator among the paths to the function's main end, the last reachable one:
/// lanes that return early, or trap, are waited for by nobody. A block that cannot reach the main end has the
/// post-dominator among the paths to the other ends. Throws Failure(invalid_argument) for a branch to no label.
std::vector<Block> build_blocks(const Function& function);

/// The immediate dominator of each node of a graph, by Lengauer and Tarjan, without recursion; kNone for the root and
/// for nodes that it does not reach. `successors[node]` lists nodes.
std::vector<int> immediate_dominators(int root, const std::vector<std::vector<int>>& successors);

}  // namespace cubit::runtime::ptx
