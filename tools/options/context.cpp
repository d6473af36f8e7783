#include "tools/options/context.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "files/text/quote.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/score_files.hpp"

namespace cubit::tools {
namespace {

/// The library continues without a disk cache and warns. On the command line, a file or a dangling link in place of the
/// cache folder is the user's mistake.
void require_no_file(const std::string& folder) {
  struct stat facts {};
  struct stat link {};
  const bool exists = ::stat(folder.c_str(), &facts) == 0;
  const bool is_missing = !exists && errno == ENOENT;
  const bool dangles = is_missing && ::lstat(folder.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
  if (dangles) {
    throw BadInput("cache folder " + folder, "the path is a link to something that does not exist",
                   "give another with --cache-dir or CUBIT_CACHE_DIR");
  }
  if (exists ? !S_ISDIR(facts.st_mode) : !is_missing && errno == ENOTDIR) {
    throw BadInput("cache folder " + folder, "the path, or a part of it, is not a folder",
                   "give another with --cache-dir or CUBIT_CACHE_DIR");
  }
}

}  // namespace

std::optional<std::string> Context::named_cache_dir() const {
  if (cache_dir) return cache_dir;
  const char* variable = std::getenv("CUBIT_CACHE_DIR");  // the variable that the library reads
  return variable == nullptr ? std::nullopt : std::optional<std::string>(variable);
}

Engine Context::engine(LogFunction log) const {
  if (compile == "allow") return engine(CUBIT_COMPILE_ALLOW, std::move(log), public_keys);
  if (compile == "never") return engine(CUBIT_COMPILE_NEVER, std::move(log), public_keys);
  return engine(CUBIT_COMPILE_FROM_ENVIRONMENT, std::move(log), public_keys);
}

std::string Context::resolved(const std::string& descriptor) const {
  ScoreFiles files(scores);
  std::string text = files.resolve(descriptor);
  files.require_all_used();
  return text;
}

void Context::use_own_compiler() {
  const char* variable = std::getenv("CUBIT_COMPILER");  // the variable that the library reads
  if (variable == nullptr || *variable == '\0') compiler = CUBIT_COMPILER_EXACT;
  public_keys = "";
}

Engine Context::cache_at(const std::string& folder) {
  EngineOptions options;
  options.cache_dir = folder.c_str();
  options.system_caches = "";
  options.bundles = options.public_keys = "";
  options.compile = CUBIT_COMPILE_NEVER;
  options.log = console.log(verbose);
  return Engine(std::move(options));
}

Engine Context::cache_reader(LogFunction log) const { return engine(CUBIT_COMPILE_NEVER, std::move(log), ""); }

Engine Context::server(LogFunction log) const { return engine(CUBIT_COMPILE_NEVER, std::move(log)); }

void Context::require_cache_folder() const {
  const auto folder = named_cache_dir();
  if (folder && !folder->empty()) require_no_file(*folder);
}

void Context::require_existing_cache_dir() const {
  struct stat facts {};
  if (!cache_dir || cache_dir->empty() || ::stat(cache_dir->c_str(), &facts) == 0 || errno != ENOENT) return;
  throw BadInput("cache folder " + *cache_dir, "does not exist", "give another with --cache-dir");
}

Engine Context::engine(cubit_compile_policy policy, LogFunction log, const char* keys) const {
  const auto folder = named_cache_dir();
  require_cache_folder();
  EngineOptions options;
  if (cache_dir) options.cache_dir = cache_dir->c_str();
  options.compile = policy;
  options.compiler = compiler;
  options.public_keys = keys;
  options.log = std::move(log);
  return Engine(std::move(options));
}

Devices find_devices() {
  const nlohmann::json json = nlohmann::json::parse(devices());
  Devices found{{}, json.at("trouble").get<std::string>()};
  for (const auto& device : json.at("devices")) {
    if (!device.contains("trouble")) {
      found.list.push_back(device);
    } else if (found.trouble.empty()) {
      found.trouble = device.at("trouble").get<std::string>();
    }
  }
  return found;
}

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const auto& row : nlohmann::json::parse(architectures())) names.push_back(row.at("name"));
  return names;
}

std::vector<std::string> usual_architectures() {
  std::vector<std::string> names;
  for (const auto& row : nlohmann::json::parse(architectures())) {
    if (row.at("usual").get<bool>()) names.push_back(row.at("name"));
  }
  return names;
}

std::vector<std::string> parse_architectures(const std::string& text) {
  const std::vector<std::string> known = known_architectures();
  std::vector<std::string> names;
  for (std::string& name : split_list(text, "--arch")) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw BadInput("--arch " + quote(name), "is not an architecture that cubit knows",
                     fmt::format("accepted: {}", fmt::join(known, ", ")));
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

void print_json(const nlohmann::ordered_json& json) { fmt::print("{}\n", json_text(json)); }

}  // namespace cubit::tools
