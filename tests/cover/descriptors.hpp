// The descriptors of every operator that cubit_operators lists, made from what it says of their fields and nothing
// else.
#pragma once

#include <string>
#include <vector>

namespace cubit::tests {

struct Cover {
  std::vector<std::string> descriptors;  ///< canonical, without repetition
  std::size_t pairs = 0;                 ///< of values of two fields of one operator, or values of its only one
  std::size_t legal_pairs = 0;           ///< that any descriptor has
};

/// Short lists in which every legal pair of values occurs, operator after operator.
Cover pairwise_descriptors();

/// A user's score modification of the covers: nothing without parameters, else ALiBi with slopes from there.
std::string cover_score();

/// Every descriptor there is; of a field that is a range, only some values, here and above. Fields that may be added to
/// nearly every descriptor (soft_cap, alibi, score, window, sinks) go round instead: each descriptor has one
/// combination of them.
Cover all_descriptors();

}  // namespace cubit::tests
