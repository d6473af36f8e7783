// Wraps dlopen and dlsym in a class.
#include "runtime/dynamic_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

namespace cubit::runtime {

std::optional<DynamicLibrary> DynamicLibrary::open(const std::string& path, std::string& why) {
  // RTLD_LOCAL, because a framework in the same process may use another version of the same library.
  if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return DynamicLibrary(handle);
  const char* reason = dlerror();
  why = reason == nullptr ? "the loader gave no reason" : reason;
  if (why.starts_with(path + ": ")) why.erase(0, path.size() + 2);  // callers name the file themselves
  return std::nullopt;
}

void* DynamicLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

std::string DynamicLibrary::path() const {
  link_map* map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  std::error_code error;
  const auto resolved = std::filesystem::canonical(map->l_name, error);
  return error ? std::string(map->l_name) : resolved.string();
}

}  // namespace cubit::runtime
