// The exception type of cubit's own code. The C interface turns a Failure into a status code and a message.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace cubit {

/// The kind of a failure. The values equal those of `cubit_status` in cubit.h.
enum class Status : int {
  ok = 0,
  invalid_argument = 1,      ///< an argument, option or environment variable is not accepted
  unsupported = 2,           ///< well formed, but this operator or architecture has no kernel for it
  not_cached = 3,            ///< the engine may not compile, and no cache holds the kernel
  compile_failed = 4,        ///< the compiler rejected the source; the message contains the compiler log
  compiler_unavailable = 5,  ///< this machine has no usable NVRTC
  driver_unavailable = 6,    ///< this machine has no CUDA driver or no GPU
  device_error = 7,          ///< the CUDA driver reported an error
  not_resident = 8,          ///< a launch during stream capture used a kernel that was not prepared
  io_error = 9,              ///< a file or folder could not be read or written
  internal = 10,             ///< a bug in cubit, or host memory ran out
};

/// An error in three parts: what was given, which rule it breaks, and what would be accepted. what() joins the parts to
/// one sentence: "<given>: <rule>; <remedy>".
class Failure : public std::exception {
 public:
  Failure(Status status, std::string given, std::string rule, std::string remedy = {})
      : status_(status), given_(std::move(given)), rule_(std::move(rule)), remedy_(std::move(remedy)) {
    message_ = given_ + ": " + rule_;
    if (!remedy_.empty()) message_ += "; " + remedy_;
  }

  Status status() const noexcept { return status_; }
  const std::string& given() const noexcept { return given_; }
  const std::string& rule() const noexcept { return rule_; }
  const std::string& remedy() const noexcept { return remedy_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Status status_;
  std::string given_;
  std::string rule_;
  std::string remedy_;
  std::string message_;
};

}  // namespace cubit
