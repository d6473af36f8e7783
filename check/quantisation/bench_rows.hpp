// The benchmark cases that operators on rows share.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "check/problem.hpp"

namespace cubit::check::quantisation {

/// Many tokens, for which the share of the copy floor is the target, and few tokens, which must take at most 4 us.
inline std::vector<BenchCase> row_bench_cases(const std::vector<std::string>& descriptors) {
  constexpr double kShare = 0.9;
  constexpr double kFewMicroseconds = 4;
  std::vector<BenchCase> cases;
  for (const std::string& descriptor : descriptors) {
    for (const double columns : {4096, 8192}) {
      for (const double rows : {1, 64, 8192}) {
        const bool are_few = rows <= 64;
        cases.push_back({are_few ? "few tokens" : "many tokens",
                         fmt::format("{} x {}", rows, columns),
                         descriptor,
                         {{"rows", rows}, {"columns", columns}},
                         are_few ? kFewMicroseconds : 0,
                         are_few ? 0 : kShare});
      }
    }
  }
  return cases;
}

}  // namespace cubit::check::quantisation
