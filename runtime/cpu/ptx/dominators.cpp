// Implements immediate_dominators() with the simple variant (m log n) of T. Lengauer and R. E. Tarjan, "A fast
// algorithm for finding dominators in a flowgraph", 1979. Hostile text may hold a million blocks, so recursion and m n
// algorithms are out.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "runtime/cpu/ptx/blocks.hpp"

namespace cubit::runtime::ptx {
namespace {

class Dominators {
 public:
  explicit Dominators(const std::vector<std::vector<int>>& successors);
  std::vector<int> find(int root);

 private:
  using Indices = std::vector<int>;

  void number(int root);
  void visit(int node, int parent);
  int semidominator(int node);
  void settle(int parent);
  int best_above(int node);

  const std::vector<Indices>& successors_;
  std::vector<Indices> predecessors_;
  std::vector<Indices> waiting_;  ///< for each node, the nodes whose semidominator it is, until they are processed
  Indices order_;                 ///< depth-first order
  Indices number_;                ///< position in order_, later of the semidominator; kNone: not reached
  Indices parent_;                ///< parent in the depth-first tree
  Indices ancestor_;              ///< ancestor in the forest of finished nodes
  Indices best_;                  ///< node with the least semidominator on the compressed path
  Indices dominator_;
  Indices path_;
};

Dominators::Dominators(const std::vector<Indices>& successors)
    : successors_(successors),
      predecessors_(successors.size()),
      waiting_(successors.size()),
      number_(successors.size(), kNone),
      parent_(successors.size(), kNone),
      ancestor_(successors.size(), kNone),
      best_(successors.size()),
      dominator_(successors.size(), kNone) {
  std::iota(best_.begin(), best_.end(), 0);
  for (int node = 0; node < static_cast<int>(successors.size()); ++node) {
    for (const int next : successors[node]) predecessors_[next].push_back(node);
  }
}

void Dominators::visit(int node, int parent) {
  number_[node] = static_cast<int>(order_.size());
  order_.push_back(node);
  parent_[node] = parent;
}

void Dominators::number(int root) {
  std::vector<std::pair<int, std::size_t>> stack = {{root, 0}};
  visit(root, kNone);
  while (!stack.empty()) {
    auto& [node, edge] = stack.back();
    if (edge == successors_[node].size()) {
      stack.pop_back();
      continue;
    }
    const int next = successors_[node][edge++];
    if (number_[next] != kNone) continue;
    visit(next, node);
    stack.emplace_back(next, 0);
  }
}

/// Compresses the path from `node` to the root of its tree, and returns the best node on the path.
int Dominators::best_above(int node) {
  if (ancestor_[node] == kNone) return node;
  path_.clear();
  for (int at = node; ancestor_[ancestor_[at]] != kNone; at = ancestor_[at]) path_.push_back(at);
  for (auto at = path_.rbegin(); at != path_.rend(); ++at) {
    const int above = ancestor_[*at];
    if (number_[best_[above]] < number_[best_[*at]]) best_[*at] = best_[above];
    ancestor_[*at] = ancestor_[above];
  }
  return best_[node];
}

int Dominators::semidominator(int node) {
  int least = number_[node];
  for (const int before : predecessors_[node]) {
    if (number_[before] != kNone) least = std::min(least, number_[best_above(before)]);
  }
  return least;
}

void Dominators::settle(int parent) {
  for (const int node : std::exchange(waiting_[parent], {})) {
    const int best = best_above(node);
    dominator_[node] = number_[best] < number_[node] ? best : parent;
  }
}

std::vector<int> Dominators::find(int root) {
  number(root);
  for (int i = static_cast<int>(order_.size()) - 1; i > 0; --i) {
    const int node = order_[i];
    number_[node] = semidominator(node);
    waiting_[order_[number_[node]]].push_back(node);
    ancestor_[node] = parent_[node];
    settle(parent_[node]);
  }
  for (std::size_t i = 1; i < order_.size(); ++i) {
    const int node = order_[i];
    if (dominator_[node] != order_[number_[node]]) dominator_[node] = dominator_[dominator_[node]];
  }
  return std::move(dominator_);
}

}  // namespace

std::vector<int> immediate_dominators(int root, const std::vector<std::vector<int>>& successors) {
  return Dominators(successors).find(root);
}

}  // namespace cubit::runtime::ptx
