// Happens-before: how much of every agent's past another one knows. An agent is a warp, or a copy engine that works
// beside the warps.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace cubit::runtime::cpu {

using Agent = std::uint32_t;  ///< of a grid
inline constexpr Agent kNobody = ~Agent{0};

/// A vector clock. Agents that are not in it are at time 0, of which everybody knows.
class Clock {
 public:
  std::uint32_t at(Agent agent) const;
  void set(Agent agent, std::uint32_t time);
  void join(const Clock& other);  ///< the later of both, agent by agent
  bool is_empty() const { return entries_.empty(); }

 private:
  using Entry = std::pair<Agent, std::uint32_t>;
  std::vector<Entry> entries_;  ///< by agent
};

}  // namespace cubit::runtime::cpu
