// The smallest possible use of NVRTC: does this text compile for that target, and to what?
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/dynamic_library.hpp"

namespace cubit::codegen {

class NvrtcProbe {
 public:
  /// The library of this process, or nullptr where there is none.
  static const NvrtcProbe* instance();

  int version() const { return version_; }                          ///< 1300 for 13.0
  const std::vector<int>& supported() const { return supported_; }  ///< compute capabilities

  struct Result {
    bool compiled = false;
    std::string cubin;
    std::string log;
  };
  Result compile(const std::string& text, std::string_view target) const;

 private:
  explicit NvrtcProbe(runtime::DynamicLibrary library);
  template <class Function>
  Function* symbol(const char* name) const;

  runtime::DynamicLibrary library_;
  int version_ = 0;
  std::vector<int> supported_;
};

}  // namespace cubit::codegen

/// Skips the rest of a test where there is no NVRTC; else names it `probe`.
#define CUBIT_NEED_NVRTC(probe)                           \
  const NvrtcProbe* const probe = NvrtcProbe::instance(); \
  if ((probe) == nullptr) GTEST_SKIP() << "no NVRTC on this machine"
