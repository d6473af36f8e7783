// Proves that the operators and the public header know the same tensor types with the same sizes. cubit.hpp is
// header-only and cannot share code with the library.
#include <gtest/gtest.h>

#include <cubit/check.hpp>
#include <string>

#include "base/error.hpp"
#include "check/tensor.hpp"

namespace cubit::check {
namespace {

std::size_t bytes_for_operators(const std::string& type) {
  try {
    return static_cast<std::size_t>(check::type_bytes(type));
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::invalid_argument);
    return 0;
  }
}

TEST(TypeBytes, OperatorsAndThePublicHeaderAgreeOnEveryName) {
  int known = 0;
  const auto compare = [&](const std::string& type) {
    EXPECT_EQ(bytes_for_operators(type), cubit::type_bytes(type)) << type;
    known += cubit::type_bytes(type) != 0;
  };
  for (const char* kind : {"U", "I", "F", "BF", "C"}) {
    for (const char* bits : {"", "4", "8", "16", "32", "64", "128"}) compare(std::string(kind) + bits);
  }
  for (const char* name : {"", "BOOL", "F4", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FN", "f32", "F32 "})
    compare(name);
  EXPECT_EQ(known, 15);
}

}  // namespace
}  // namespace cubit::check
