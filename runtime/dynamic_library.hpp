// A shared library that is opened at run time. cubit opens the compiler and the driver this way and never links them.
#pragma once

#include <optional>
#include <string>

namespace cubit::runtime {

/// A library that stays loaded until the process ends. The compiler and the driver register destructors of threads and
/// of the process, which would call unmapped code, and keep memory that only their own variables reach.
class DynamicLibrary {
 public:
  /// Opens a file path, or a bare soname that the loader searches for. On failure returns nothing and puts the loader's
  /// reason into `why`.
  static std::optional<DynamicLibrary> open(const std::string& path, std::string& why);

  /// Returns the symbol's address, or nullptr if the library does not export the symbol.
  void* symbol(const char* name) const;

  /// The file that the loader opened, with links resolved. Two names of one library give the same path.
  std::string path() const;

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}

  void* handle_;
};

}  // namespace cubit::runtime
