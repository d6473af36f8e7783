// The descriptors of every operator that cubit_operators lists, made from what it says of their fields and nothing else.
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

/// Every descriptor there is; of a field that is a range, only some values, here and above.
Cover all_descriptors();

}  // namespace cubit::tests
