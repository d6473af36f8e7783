// Checks how bad input is refused: with the status of a caller's mistake and one exact sentence.
#pragma once

#include <gtest/gtest.h>

#include <cubit/cubit.hpp>

#include <ostream>
#include <string>

#include "base/error.hpp"

namespace cubit::tests {

/// A descriptor text that is refused, and the sentence that refuses it.
struct Refused {
  std::string text;
  std::string sentence;
};

inline void PrintTo(const Refused& refused, std::ostream* out) { *out << '"' << refused.text << '"'; }

/// Returns the sentence with which a call refuses its input, from cubit's own code or through the public interface, or
/// "accepted". A status other than invalid_argument fails the test.
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

/// Checks that the call is refused with exactly this sentence.
template <class Call>
void expect_refused(const Call& call, const std::string& sentence) {
  EXPECT_EQ(refusal_of(call), sentence);
}

/// Checks that the call is refused with a sentence that contains this part.
template <class Call>
void expect_refused_with(const Call& call, const std::string& part) {
  const std::string refusal = refusal_of(call);
  EXPECT_NE(refusal.find(part), std::string::npos) << refusal << "\nhas not: " << part;
}

}  // namespace cubit::tests
