// Pairwise cover: a short list of combinations in which every pair of values of every two fields occurs.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace cubit::tests {

/// A combination: one value index per field.
using Combination = std::vector<int>;

/// A set of pairs (value of a field, value of a later field).
class PairSet {
 public:
  explicit PairSet(const std::vector<int>& counts) {
    for (const int count : counts) {
      firsts_.push_back(values_);
      values_ += static_cast<std::size_t>(count);
    }
    members_.resize(values_ * values_);
  }
  std::size_t size() const { return size_; }
  void insert(const Combination& combination) { set(combination, 1); }
  void erase(const Combination& combination) { set(combination, 0); }
  /// Returns how many of the combination's pairs are in the set.
  std::size_t count(const Combination& combination) const {
    std::size_t found = 0;
    for_pairs(combination, [&](std::size_t pair) { found += members_[pair]; });
    return found;
  }

 private:
  template <class Body>
  void for_pairs(const Combination& combination, Body body) const {
    for (std::size_t i = 0; i < combination.size(); ++i) {
      const std::size_t row = (firsts_[i] + static_cast<std::size_t>(combination[i])) * values_;
      for (std::size_t j = i + 1; j < combination.size(); ++j)
        body(row + firsts_[j] + static_cast<std::size_t>(combination[j]));
    }
  }
  void set(const Combination& combination, unsigned char present) {
    for_pairs(combination, [&](std::size_t pair) {
      size_ += present;
      size_ -= members_[pair];
      members_[pair] = present;
    });
  }

  std::vector<std::size_t> firsts_;  ///< the number of each field's first value
  std::size_t values_ = 0;           ///< number of values of all fields
  std::vector<unsigned char> members_;
  std::size_t size_ = 0;
};

/// Returns all legal combinations; the first field varies fastest. `counts` holds the number of values per field.
inline std::vector<Combination> all_combinations(const std::vector<int>& counts,
                                                 const std::function<bool(const Combination&)>& legal) {
  std::vector<Combination> all;
  Combination current(counts.size(), 0);
  while (true) {
    if (legal(current)) all.push_back(current);
    std::size_t field = 0;
    while (field < counts.size() && ++current[field] == counts[field]) current[field++] = 0;
    if (field == counts.size()) return all;
  }
}

/// Returns a greedy cover of all pairs that occur in the candidates. The result is deterministic. If there are many
/// candidates, a first pass looks at a few, which cover nearly all pairs.
inline std::vector<Combination> pairwise_cover_of(const std::vector<int>& counts,
                                                  const std::vector<Combination>& candidates) {
  constexpr std::size_t kMany = 40'000;
  std::size_t stride = candidates.size() < kMany ? 1 : 97;  // a prime, so that no field repeats in step with the stride
  PairSet uncovered(counts);
  for (const Combination& candidate : candidates) uncovered.insert(candidate);
  std::vector<Combination> cover;
  while (uncovered.size() > 0) {
    const Combination* best = nullptr;
    std::size_t best_new = 0;
    for (std::size_t i = 0; i < candidates.size(); i += stride) {
      const std::size_t fresh = uncovered.count(candidates[i]);
      if (fresh > best_new) {
        best_new = fresh;
        best = &candidates[i];
      }
    }
    if (best == nullptr) {
      stride = 1;
      continue;
    }
    uncovered.erase(*best);
    cover.push_back(*best);
  }
  return cover;
}

/// A cover of all combinations for which `legal` is true.
inline std::vector<Combination> pairwise_cover(const std::vector<int>& counts,
                                               const std::function<bool(const Combination&)>& legal) {
  return pairwise_cover_of(counts, all_combinations(counts, legal));
}

}  // namespace cubit::tests
