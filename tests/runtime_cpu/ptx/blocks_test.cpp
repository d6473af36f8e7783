// Tests of basic blocks and reconvergence: known shapes, and dominators against their definition on random graphs.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>

#include "base/error.hpp"
#include "runtime/cpu/ptx/blocks.hpp"

namespace cubit::runtime::ptx {
namespace {

std::vector<Block> blocks_of(const std::string& statements) {
  const Module module =
      parse(".version 9.0 .target sm_80 .entry k { .reg .pred p, q; .reg .b32 r; " + statements + " }");
  return build_blocks(module.functions[0]);
}

/// "first-last>successors:reconverge" of each block.
std::string shape(const std::vector<Block>& blocks) {
  std::string text;
  for (const Block& block : blocks) {
    text += std::to_string(block.first) + "-" + std::to_string(block.last) + ">";
    for (std::size_t i = 0; i < block.successors.size(); ++i) {
      text += (i ? "," : "") + std::to_string(block.successors[i]);
    }
    text += ":" + (block.reconverge == kNone ? "end" : std::to_string(block.reconverge)) + " ";
  }
  return text;
}

TEST(Blocks, EmptyFunction) { EXPECT_TRUE(blocks_of("").empty()); }

TEST(Blocks, StraightLine) { EXPECT_EQ(shape(blocks_of("mov.b32 r, 0; mov.b32 r, 1; ret;")), "0-3>:end "); }

TEST(Blocks, IfThenElse) {
  EXPECT_EQ(shape(blocks_of("@p bra else; mov.b32 r, 0; bra join; else: mov.b32 r, 1; join: ret;")),
            "0-1>2,1:3 1-3>3:3 3-4>3:3 4-5>:end ");
}

TEST(Blocks, LoopMeetsBehindItself) {
  EXPECT_EQ(shape(blocks_of("top: mov.b32 r, 0; @p bra top; ret;")), "0-2>0,1:1 2-3>:end ");
}

TEST(Blocks, LanesThatReturnEarlyAreNotWaitedFor) {
  EXPECT_EQ(shape(blocks_of("@p bra join; @q ret; mov.b32 r, 0; join: mov.b32 r, 1; ret;")),
            "0-1>3,1:3 1-2>2:2 2-3>3:3 3-5>:end ");
  EXPECT_EQ(shape(blocks_of("@p bra join; @q bra out; bra join; out: ret; join: mov.b32 r, 1; ret;")),
            "0-1>4,1:4 1-2>3,2:2 2-3>4:4 3-4>:end 4-6>:end ");
}

TEST(Blocks, ATrapIsNotTheMainEnd) {
  EXPECT_EQ(shape(blocks_of("@p bra bad; @q bra join; mov.b32 r, 0; join: ret; bad: trap;")),
            "0-1>4,1:1 1-2>3,2:3 2-3>3:3 3-4>:end 4-5>:end ");
}

TEST(Blocks, EndlessLoopsMeetNowhere) {
  EXPECT_EQ(shape(blocks_of("@p bra out; top: @q bra top; bra top; out: ret;")),
            "0-1>3,1:3 1-2>1,2:end 2-3>1:end 3-4>:end ");
}

TEST(Blocks, BranchTablesAndTheEnd) {
  EXPECT_EQ(shape(blocks_of("ts: .branchtargets a, b, c; @p brx.idx r, ts; a: mov.b32 r, 0; b: mov.b32 r, 1; c:")),
            "0-1>1,2,1:2 1-2>2:2 2-3>:end ");
}

TEST(Blocks, ABranchNamesALabel) { EXPECT_THROW(blocks_of("bra r;"), Failure); }

/// Removes the node `without` and returns which nodes the root still reaches.
std::vector<bool> reach(const std::vector<std::vector<int>>& graph, int without) {
  std::vector<bool> seen(graph.size(), false);
  std::vector<int> work;
  if (without != 0) work.push_back(0);
  while (!work.empty()) {
    const int node = work.back();
    work.pop_back();
    if (seen[node] || node == without) continue;
    seen[node] = true;
    work.insert(work.end(), graph[node].begin(), graph[node].end());
  }
  return seen;
}

/// d dominates n if n cannot be reached without d. The immediate dominator is dominated by all other dominators.
std::vector<int> dominators_by_definition(const std::vector<std::vector<int>>& graph) {
  const int count = static_cast<int>(graph.size());
  const std::vector<bool> reached = reach(graph, kNone);
  std::vector<std::vector<int>> of(count);
  for (int d = 0; d < count; ++d) {
    const std::vector<bool> seen = reach(graph, d);
    for (int n = 0; n < count; ++n) {
      if (n != d && reached[d] && reached[n] && !seen[n]) of[n].push_back(d);
    }
  }
  std::vector<int> immediate(count, kNone);
  for (int n = 0; n < count; ++n) {
    for (const int d : of[n]) {
      if (of[d].size() + 1 == of[n].size()) immediate[n] = d;
    }
  }
  return immediate;
}

TEST(Dominators, EqualTheirDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const int count = 1 + static_cast<int>(random() % 14);
    std::vector<std::vector<int>> graph(count);
    const int edges = static_cast<int>(random() % (3 * count));
    for (int i = 0; i < edges; ++i) graph[random() % count].push_back(static_cast<int>(random() % count));
    ASSERT_EQ(immediate_dominators(0, graph), dominators_by_definition(graph)) << "round " << round;
  }
}

TEST(Dominators, LongChainsNeedNoStack) {
  constexpr int kCount = 300'000;
  std::vector<std::vector<int>> graph(kCount);
  for (int i = 0; i + 1 < kCount; ++i) graph[i] = {i + 1, kCount - 1};
  const std::vector<int> dominators = immediate_dominators(0, graph);
  EXPECT_EQ(dominators[kCount - 2], kCount - 3);
  EXPECT_EQ(dominators[kCount - 1], 0);
}

}  // namespace
}  // namespace cubit::runtime::ptx
