// Reads the library's environment variables, in this one place.
#include "runtime/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string chosen_cache_dir() {
  // A variable that is set to "" disables the disk cache.
  if (const char* chosen = std::getenv("CUBIT_CACHE_DIR")) return chosen;
  // The XDG base directory specification says that a relative path is invalid and must be ignored.
  const std::string xdg = variable("XDG_CACHE_HOME");
  if (xdg.starts_with('/')) return xdg + "/cubit";
  const std::string home = variable("HOME");
  return home.empty() ? std::string() : home + "/.cache/cubit";
}

std::chrono::milliseconds chosen_lock_wait(std::chrono::milliseconds usual) {
  constexpr int kMostSeconds = 24 * 60 * 60;
  const std::string value = variable("CUBIT_LOCK_WAIT");
  if (value.empty()) return usual;
  int seconds = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error == std::errc() && stop == value.data() + value.size() && seconds >= 0 && seconds <= kMostSeconds)
    return std::chrono::seconds(seconds);
  throw Failure(Status::invalid_argument, "CUBIT_LOCK_WAIT=" + value, "this is not a time to wait for a lock",
                "give a whole number of seconds from 0 to 86400");
}

/// A number of bytes, with a suffix K, M or G for powers of 1024.
std::uint64_t chosen_cache_bytes() {
  const std::string value = variable("CUBIT_CACHE_MAX_BYTES");
  if (value.empty()) return 0;
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const std::string_view suffix(stop, static_cast<std::size_t>(value.data() + value.size() - stop));
  const int shift = suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : suffix.empty() ? 0 : -1;
  if (error == std::errc() && shift >= 0 && number <= (UINT64_MAX >> shift)) return number << shift;
  throw Failure(Status::invalid_argument, "CUBIT_CACHE_MAX_BYTES=" + value, "this is not a number of bytes",
                "give a whole number, with the suffix K, M or G if you like");
}

int chosen_cache_days() {
  constexpr int kMostDays = 36500;
  const std::string value = variable("CUBIT_CACHE_MAX_DAYS");
  if (value.empty()) return 0;
  int days = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), days);
  if (error == std::errc() && stop == value.data() + value.size() && days >= 0 && days <= kMostDays) return days;
  throw Failure(Status::invalid_argument, "CUBIT_CACHE_MAX_DAYS=" + value, "this is not a number of days",
                "give a whole number from 0 to 36500");
}

/// Parses "13.0.88", a version with its build number.
std::optional<CompilerVersion> parse_compiler_version(std::string_view text) {
  CompilerVersion version;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (int* part : {&version.major, &version.minor, &version.build}) {
    if (part != &version.major && (at == end || *at++ != '.')) return std::nullopt;
    const auto [stop, error] = std::from_chars(at, end, *part);
    if (error != std::errc() || *part < 0) return std::nullopt;
    at = stop;
  }
  return at == end ? std::optional(version) : std::nullopt;
}

void choose_compiler_policy(Settings& settings) {
  const std::string value = variable("CUBIT_COMPILER");
  if (value.empty() || value == "any") return;
  settings.compiler_policy = CompilerPolicy::exact;
  if (value == "exact") return;
  settings.compiler_version = parse_compiler_version(value);
  if (settings.compiler_version) return;
  throw Failure(Status::invalid_argument, "CUBIT_COMPILER=" + value, "this is not a compiler policy",
                "use any, exact, or a version of NVRTC with its build number, such as 13.0.88");
}

NamedFolder named_nvrtc_folder() {
  for (const char* name : {"CUBIT_NVRTC_DIR", "CUDA_HOME", "CUDA_PATH"}) {
    if (std::string folder = variable(name); !folder.empty()) return {std::move(folder), name};
  }
  return {};
}

std::vector<std::string> usual_nvrtc_folders() {
  std::vector<std::string> folders;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (std::string folder = variable(name); !folder.empty()) folders.push_back(std::move(folder));
  }
  if (const std::string home = variable("HOME"); !home.empty()) folders.push_back(home + "/.local");
  return folders;
}

CompilePolicy chosen_compile_policy() {
  const std::string value = variable("CUBIT_COMPILE");
  if (value.empty() || value == "allow") return CompilePolicy::allow;
  if (value == "never") return CompilePolicy::never;
  throw Failure(Status::invalid_argument, "CUBIT_COMPILE=" + value, "this is not a compile policy",
                "use allow or never");
}

}  // namespace

std::vector<std::string> path_list(std::string_view list) {
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < list.size();) {
    const std::size_t last = std::min(list.find(':', first), list.size());
    if (last > first) parts.emplace_back(list.substr(first, last - first));
    first = last + 1;
  }
  return parts;
}

Settings Settings::from_environment(std::optional<CompilePolicy> policy) {
  std::string cache_dir = chosen_cache_dir();
  const bool is_unknown = cache_dir.empty() && std::getenv("CUBIT_CACHE_DIR") == nullptr;
  Settings settings{.cache_dir = std::move(cache_dir),
                    .is_cache_dir_unknown = is_unknown,
                    .system_caches = path_list(variable("CUBIT_SYSTEM_CACHES")),
                    .bundles = path_list(variable("CUBIT_BUNDLES")),
                    .public_keys = variable("CUBIT_PUBLIC_KEYS"),
                    .cache_trust = variable("CUBIT_CACHE_TRUST"),
                    .cache_max_bytes = chosen_cache_bytes(),
                    .cache_max_days = chosen_cache_days(),
                    .lock_wait = chosen_lock_wait(Settings{}.lock_wait),
                    .nvrtc_path = variable("CUBIT_NVRTC"),
                    .nvrtc_folder = named_nvrtc_folder(),
                    .nvrtc_folders = usual_nvrtc_folders(),
                    .compile_policy = policy ? *policy : chosen_compile_policy()};
  choose_compiler_policy(settings);
  return settings;
}

}  // namespace cubit::runtime
