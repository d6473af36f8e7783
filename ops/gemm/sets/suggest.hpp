// The sizes by which `cubit suggest` chooses a member of a set.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/numbers.hpp"

namespace cubit::ops::gemm {

struct SuggestedSizes {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

/// Throws Failure(invalid_argument) if m, n or k is missing or no whole number, or if there is another size.
SuggestedSizes suggested_sizes(const Numbers& sizes, std::string_view operator_name);

}  // namespace cubit::ops::gemm
