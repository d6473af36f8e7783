// Pairwise cover: a short list of combinations in which every pair of values of every two fields occurs.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace cubit::tests {

/// A combination: one value index per field.
using Combination = std::vector<int>;

/// Greedy cover of all pairs that some `legal` combination has. Deterministic. `counts`: number of values per field.
inline std::vector<Combination> pairwise_cover(const std::vector<int>& counts,
                                               const std::function<bool(const Combination&)>& legal) {
  using Pair = std::tuple<int, int, int, int>;  // field, value, later field, value
  const auto pairs_of = [](const Combination& combination) {
    std::vector<Pair> pairs;
    for (int i = 0; i < static_cast<int>(combination.size()); ++i) {
      for (int j = i + 1; j < static_cast<int>(combination.size()); ++j) {
        pairs.emplace_back(i, combination[i], j, combination[j]);
      }
    }
    return pairs;
  };
  std::vector<Combination> candidates;
  std::set<Pair> uncovered;
  Combination current(counts.size(), 0);
  while (true) {
    if (legal(current)) {
      candidates.push_back(current);
      for (const Pair& pair : pairs_of(current)) uncovered.insert(pair);
    }
    std::size_t field = 0;
    while (field < counts.size() && ++current[field] == counts[field]) current[field++] = 0;
    if (field == counts.size()) break;
  }
  std::vector<Combination> cover;
  while (!uncovered.empty()) {
    const Combination* best = nullptr;
    std::size_t best_new = 0;
    for (const Combination& candidate : candidates) {
      std::size_t fresh = 0;
      for (const Pair& pair : pairs_of(candidate)) fresh += uncovered.count(pair);
      if (fresh > best_new) {
        best_new = fresh;
        best = &candidate;
      }
    }
    for (const Pair& pair : pairs_of(*best)) uncovered.erase(pair);
    cover.push_back(*best);
  }
  return cover;
}

}  // namespace cubit::tests
