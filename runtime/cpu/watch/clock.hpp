// Vector clocks for happens-before: which part of every agent's past another agent knows. An agent is a warp, or a copy
// engine that works asynchronously to the warps.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace cubit::runtime::cpu {

using Agent = std::uint32_t;  ///< index of an agent in the grid
inline constexpr Agent kNobody = ~Agent{0};

/// A vector clock. Agents without an entry are at time 0, which every agent knows.
class Clock {
 public:
  std::uint32_t at(Agent agent) const;
  void set(Agent agent, std::uint32_t time);
  void join(const Clock& other);  ///< takes the later time for each agent
  bool is_empty() const { return entries_.empty(); }

 private:
  using Entry = std::pair<Agent, std::uint32_t>;
  std::vector<Entry> entries_;  ///< sorted by agent
};

}  // namespace cubit::runtime::cpu
