// What every refusal of bad input looks like.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/tools/program.hpp"

namespace cubit::tools::test {

/// Expects exit code 2, an empty standard output, and one sentence on standard error that contains `parts`.
inline void expect_one_sentence(const Result& result, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, ::testing::StartsWith("cubit: "));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  for (const std::string& part : parts) EXPECT_THAT(result.err, ::testing::HasSubstr(part));
}

}  // namespace cubit::tools::test
