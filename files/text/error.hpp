// Errors of the command line itself; errors of the library arrive as cubit::Error. main.cpp turns both kinds into one
// sentence and an exit code.
#pragma once

#include <stdexcept>
#include <string>

#include "files/text/quote.hpp"

namespace cubit::tools {

inline constexpr int kExitGood = 0;
inline constexpr int kExitWorkFailed = 1;  ///< a compile error, a check over its tolerance, damage, or no device
inline constexpr int kExitBadInput = 2;    ///< the input is wrong on every machine

/// Remedies for problems with files.
inline constexpr const char* kReadableWanted = "give a file that can be read";
inline constexpr const char* kWritableWanted = "give a path that can be written";
inline constexpr const char* kOneWanted = "leave one of the two out";
inline constexpr const char* kWholeWanted = "give a complete safetensors file: copy the file again, or write it again";

/// "<given>: <rule>; <remedy>", in the form of the library's errors. A long `given` is shortened.
class CommandError : public std::runtime_error {
 public:
  CommandError(int exit_code, const std::string& given, const std::string& rule, const std::string& remedy = {})
      : std::runtime_error(printable(shortened(given)) + ": " + rule + (remedy.empty() ? "" : "; " + remedy)),
        exit_code_(exit_code) {}
  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

/// A user's mistake: the message always says what would be accepted.
class BadInput : public CommandError {
 public:
  BadInput(const std::string& given, const std::string& rule, const std::string& remedy)
      : CommandError(kExitBadInput, given, rule, remedy) {}
};

class WorkFailed : public CommandError {
 public:
  WorkFailed(const std::string& given, const std::string& rule, const std::string& remedy = {})
      : CommandError(kExitWorkFailed, given, rule, remedy) {}
};

}  // namespace cubit::tools
