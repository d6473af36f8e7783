// Runs an action that must fail and returns the text of its failure.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"

namespace cubit::codegen {

/// For bugs in cubit: the status must be internal.
std::string failure_text(auto&& action) {
  try {
    action();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::internal);
    return failure.what();
  }
  return "no failure";
}

}  // namespace cubit::codegen
