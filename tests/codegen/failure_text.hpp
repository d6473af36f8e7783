// The text of the failure that an action ends in.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"

namespace cubit::codegen {

/// Of a bug of ours: the status is internal.
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
