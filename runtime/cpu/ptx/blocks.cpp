// Implements build_blocks().
#include "runtime/cpu/ptx/blocks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "runtime/cpu/ptx/lexer.hpp"

namespace cubit::runtime::ptx {
namespace {

using Graph = std::vector<std::vector<int>>;

bool is_branch(const Instruction& instruction) { return instruction.root == "bra" || instruction.root == "brx"; }

bool is_end(const Instruction& instruction) {
  return instruction.root == "ret" || instruction.root == "exit" || instruction.root == "trap";
}

const Label& target_label(const Function& function, const Instruction& branch) {
  const std::size_t operand = branch.root == "brx" ? 1 : 0;
  const auto* label = operand < branch.operands.size() ? std::get_if<LabelOperand>(&branch.operands[operand]) : nullptr;
  if (label) return function.labels[label->index];
  throw Failure(Status::invalid_argument, fmt::format("PTX line {}, '{}'", branch.ptx_line, excerpt(branch.opcode)),
                "a branch names a label of its function");
}

std::vector<Block> cut(const Function& function) {
  const int count = static_cast<int>(function.body.size());
  std::vector<bool> begins(count + 1, false);
  for (const Label& label : function.labels) begins[label.position] = true;
  for (int i = 0; i < count; ++i) {
    if (is_branch(function.body[i]) || is_end(function.body[i])) begins[i + 1] = true;
  }
  std::vector<Block> blocks;
  for (int i = 0; i < count; ++i) {
    if (i == 0 || begins[i]) blocks.push_back({i, i, {}, kNone});
    ++blocks.back().last;
  }
  return blocks;
}

class Linker {
 public:
  Linker(const Function& function, const std::vector<Block>& blocks) : function_(function) {
    for (int block = 0; block < static_cast<int>(blocks.size()); ++block) {
      block_at_.resize(blocks[block].last, block);
    }
  }

  void link(Block& block) const {
    const Instruction& last = function_.body[block.last - 1];
    if (is_branch(last)) add_targets(block, last);
    const bool falls_through = last.guard.predicate != kNone || !(is_branch(last) || is_end(last));
    if (falls_through) add(block, block.last);
  }

 private:
  void add_targets(Block& block, const Instruction& branch) const {
    const Label& label = target_label(function_, branch);
    if (branch.root == "bra") return add(block, label.position);
    for (const int target : label.targets) add(block, function_.labels[target].position);
  }

  /// The position after the last instruction is the function's end.
  void add(Block& block, int position) const {
    if (position < static_cast<int>(block_at_.size())) block.successors.push_back(block_at_[position]);
  }

  const Function& function_;
  std::vector<int> block_at_;  ///< indexed by instruction
};

std::vector<bool> reachable(int start, const Graph& successors) {
  std::vector<bool> seen(successors.size(), false);
  std::vector<int> work = {start};
  seen[start] = true;
  while (!work.empty()) {
    const int node = work.back();
    work.pop_back();
    for (const int next : successors[node]) {
      if (!seen[next]) work.push_back(next);
      seen[next] = true;
    }
  }
  return seen;
}

class Reconvergence {
 public:
  Reconvergence(const Function& function, std::vector<Block>& blocks) : function_(function), blocks_(blocks) {}

  void find() {
    const int main_end = find_main_end();
    const int root = static_cast<int>(blocks_.size());
    const Graph backward =
        main_end == kNone ? backward_edges({}) : backward_edges(reachable(main_end, backward_edges({})));
    const std::vector<int> dominators = immediate_dominators(root, backward);
    for (int i = 0; i < root; ++i) blocks_[i].reconverge = dominators[i] == root ? kNone : dominators[i];
  }

 private:
  /// The last reachable block that ends the function, preferably without a trap.
  int find_main_end() const {
    Graph forward;
    for (const Block& block : blocks_) forward.push_back(block.successors);
    const std::vector<bool> reached = reachable(0, forward);
    int main_end = kNone;
    bool main_traps = true;
    for (int i = 0; i < static_cast<int>(blocks_.size()); ++i) {
      if (!reached[i] || !blocks_[i].successors.empty()) continue;
      const bool traps = function_.body[blocks_[i].last - 1].root == "trap";
      if (traps && !main_traps) continue;
      main_end = i;
      main_traps = traps;
    }
    return main_end;
  }

  /// All edges reversed, plus an edge to each end from a root that follows all blocks. Edges that leave `kept` are left
  /// out.
  Graph backward_edges(const std::vector<bool>& kept) const {
    const int root = static_cast<int>(blocks_.size());
    Graph edges(root + 1);
    for (int i = 0; i < root; ++i) {
      if (blocks_[i].successors.empty()) edges[root].push_back(i);
      for (const int next : blocks_[i].successors) {
        if (kept.empty() || !kept[i] || kept[next]) edges[next].push_back(i);
      }
    }
    return edges;
  }

  const Function& function_;
  std::vector<Block>& blocks_;
};

}  // namespace

std::vector<Block> build_blocks(const Function& function) {
  std::vector<Block> blocks = cut(function);
  if (blocks.empty()) return blocks;
  const Linker linker(function, blocks);
  for (Block& block : blocks) linker.link(block);
  Reconvergence(function, blocks).find();
  return blocks;
}

}  // namespace cubit::runtime::ptx
