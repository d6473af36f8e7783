// The exception that the C++ layers throw when a C function of cubit fails.
#pragma once

#include <cubit/cubit.h>

#include <exception>
#include <string>

namespace cubit {

/// A failed call of the library. code() is the status and what() the whole sentence; given(), why() and remedy() are
/// the three parts of the sentence.
class Error : public std::exception {
 public:
  explicit Error(const cubit_error& error)
      : code_(error.status), message_(error.message), given_(error.what), why_(error.why), remedy_(error.remedy) {}

  cubit_status code() const noexcept { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& given() const noexcept { return given_; }    ///< what was given
  const std::string& why() const noexcept { return why_; }        ///< the rule it breaks
  const std::string& remedy() const noexcept { return remedy_; }  ///< what would be accepted; may be empty

 private:
  cubit_status code_;
  std::string message_;
  std::string given_;
  std::string why_;
  std::string remedy_;
};

namespace detail {

inline void check(cubit_status status) {
  if (status != CUBIT_OK) throw Error(*cubit_last_error());
}

}  // namespace detail

}  // namespace cubit
