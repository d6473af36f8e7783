// A shared library opened at run time: the compiler and the driver are found where cubit runs, never linked.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace cubit::runtime {

/// Copies share the library; it is closed with the last of them.
class DynamicLibrary {
 public:
  /// `path`: a file, or a bare soname for the loader to search. Empty on failure, with the loader's reason in `why`.
  static std::optional<DynamicLibrary> open(const std::string& path, std::string& why);

  /// The symbol's address, or nullptr if the library does not export it.
  void* symbol(const char* name) const;

  /// The file the loader really opened, links resolved; two names of one library give the same path.
  std::string path() const;

 private:
  explicit DynamicLibrary(void* handle);

  std::shared_ptr<void> handle_;
};

}  // namespace cubit::runtime
