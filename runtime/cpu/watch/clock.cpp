// Implements vector clocks as sorted lists of entries.
#include "runtime/cpu/watch/clock.hpp"

#include <algorithm>

namespace cubit::runtime::cpu {
namespace {

constexpr auto kBefore = [](const auto& entry, Agent agent) { return entry.first < agent; };

}  // namespace

std::uint32_t Clock::at(Agent agent) const {
  const auto entry = std::lower_bound(entries_.begin(), entries_.end(), agent, kBefore);
  return entry != entries_.end() && entry->first == agent ? entry->second : 0;
}

void Clock::set(Agent agent, std::uint32_t time) {
  const auto entry = std::lower_bound(entries_.begin(), entries_.end(), agent, kBefore);
  if (entry != entries_.end() && entry->first == agent) {
    entry->second = time;
  } else {
    entries_.insert(entry, {agent, time});
  }
}

void Clock::join(const Clock& other) {
  std::vector<Entry> merged;
  merged.reserve(entries_.size() + other.entries_.size());
  auto mine = entries_.begin();
  for (const Entry& entry : other.entries_) {
    while (mine != entries_.end() && mine->first < entry.first) merged.push_back(*mine++);
    if (mine != entries_.end() && mine->first == entry.first) {
      merged.emplace_back(entry.first, std::max(mine->second, entry.second));
      ++mine;
    } else {
      merged.push_back(entry);
    }
  }
  merged.insert(merged.end(), mine, entries_.end());
  entries_ = std::move(merged);
}

}  // namespace cubit::runtime::cpu
