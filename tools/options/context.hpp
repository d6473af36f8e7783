// What every subcommand gets: the global options, the console, and engines made from them.
#pragma once

#include <cubit/cubit.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/text/console.hpp"

namespace CLI {
class App;
}

namespace cubit::tools {

struct Context {
  std::optional<std::string> cache_dir;
  std::string compile;  ///< "allow", "never", or empty: from the environment
  bool verbose = false;
  Console console;
  std::vector<std::string> scores;  ///< of --score
  std::function<int()> action;      ///< set by the subcommand that was given; returns the exit code

  /// The descriptor as the library takes it, after the files of --score were added. Throws as ScoreFiles does.
  std::string resolved(const std::string& descriptor) const;

  Engine engine() { return engine(console.log(verbose)); }
  /// Throws BadInput if what was named as the cache folder is a file, as every engine does; for commands that have
  /// something to say before they need an engine.
  void require_cache_folder() const;
  Engine engine(LogFunction log) const;
  /// An engine that compiles nothing, whatever the environment says: what it has comes from the disk cache.
  Engine cache_reader(LogFunction log = {}) const;
  /// The cache folder that --cache-dir or else CUBIT_CACHE_DIR names; "": none is wanted.
  std::optional<std::string> named_cache_dir() const;

 private:
  Engine engine(cubit_compile_policy policy, LogFunction log) const;
};

/// The devices that can be used, with their facts as cubit_devices gives them.
struct Devices {
  std::vector<nlohmann::json> list;
  std::string trouble;  ///< why there is none, or what is wrong with one that is not listed
};
Devices find_devices();

/// What cubit knows compute capabilities by, in ascending order.
std::vector<std::string> known_architectures();

/// Those of them to compile for where no device says what it needs.
std::vector<std::string> usual_architectures();

/// The architectures of --arch. Throws BadInput for a name cubit does not know.
std::vector<std::string> parse_architectures(const std::string& text);

/// Prints JSON to standard output, indented.
void print_json(const nlohmann::ordered_json& json);

// One file each.
void add_compile(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_suggest(CLI::App& app, Context& context);
void add_cache(CLI::App& app, Context& context);
void add_convert(CLI::App& app, Context& context);
void add_devices(CLI::App& app, Context& context);
void add_operators(CLI::App& app, Context& context);

}  // namespace cubit::tools
