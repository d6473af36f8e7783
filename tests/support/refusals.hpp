// What bad input is answered with: the status of a caller's mistake, and one sentence that tests know.
#pragma once

#include <gtest/gtest.h>

#include <cubit/cubit.hpp>

#include <string>

#include "base/error.hpp"

namespace cubit::tests {

/// The sentence with which a call refuses its input, whether of cubit's own code or through the public surface;
/// "accepted" if it does not. Another status than that of a bad argument fails the test.
template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::invalid_argument) << failure.what();
    return failure.what();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT) << error.what();
    return error.what();
  }
  return "accepted";
}

/// The call is refused with just this sentence.
template <class Call>
void expect_refused(const Call& call, const std::string& sentence) {
  EXPECT_EQ(refusal_of(call), sentence);
}

/// The same with a sentence that has this part.
template <class Call>
void expect_refused_with(const Call& call, const std::string& part) {
  const std::string refusal = refusal_of(call);
  EXPECT_NE(refusal.find(part), std::string::npos) << refusal << "\nhas not: " << part;
}

}  // namespace cubit::tests
