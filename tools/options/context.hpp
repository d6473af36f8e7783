// State that every subcommand gets: the global options, the console, and a way to make engines.
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
  std::string compile;  ///< "allow", "never", or empty: the environment decides
  cubit_compiler_policy compiler = CUBIT_COMPILER_FROM_ENVIRONMENT;
  const char* public_keys = nullptr;  ///< nullptr: those of the environment
  bool verbose = false;
  Console console;
  std::vector<std::string> scores;  ///< values of --score
  std::function<int()> action;      ///< set by the subcommand on the command line; returns the exit code

  /// The descriptor in the form that the library takes, after the files of --score were added. Throws like ScoreFiles.
  std::string resolved(const std::string& descriptor) const;

  Engine engine() { return engine(console.log(verbose)); }
  /// Throws BadInput if the path of the cache folder names a file. Making an engine checks the same; this function is
  /// for commands that report something before they need an engine.
  void require_cache_folder() const;
  /// Throws BadInput if --cache-dir names a folder that does not exist. Making an engine creates the folder, so
  /// commands that only look call this function first: a missing folder is a mistyped name.
  void require_existing_cache_dir() const;
  Engine engine(LogFunction log) const;
  /// Lets only entries of this machine's NVRTC answer, unless CUBIT_COMPILER says otherwise. For kernels to ship, which
  /// must not depend on the compilers whose entries the cache happens to hold. The public keys of the environment do
  /// not count, because the command executes no kernel and signed bundles are made of what it stores.
  void use_own_compiler();
  /// An engine that never compiles, whatever the environment says. Its kernels come from the disk cache,
  /// also if CUBIT_PUBLIC_KEYS is set, because the engine executes none of them.
  Engine cache_reader(LogFunction log = {}) const;
  /// An engine that never compiles, with the stores and the public keys of the environment: what a serving process has.
  Engine server(LogFunction log) const;
  /// An engine that never compiles, with the cache folder `folder`.
  Engine cache_at(const std::string& folder);
  /// The cache folder that --cache-dir names, else CUBIT_CACHE_DIR. "" means that no cache is wanted.
  std::optional<std::string> named_cache_dir() const;

 private:
  Engine engine(cubit_compile_policy policy, LogFunction log, const char* keys = nullptr) const;
};

/// The usable devices, with their facts in the JSON of cubit_devices.
struct Devices {
  std::vector<nlohmann::json> list;
  std::string trouble;  ///< why there is no device, or why one is not listed
};
Devices find_devices();

/// The names of all architectures that cubit knows, in ascending order.
std::vector<std::string> known_architectures();

/// The architectures to compile for if there is no device.
std::vector<std::string> usual_architectures();

/// Parses the value of --arch. Throws BadInput for a name that cubit does not know.
std::vector<std::string> parse_architectures(const std::string& text);

/// Prints indented JSON to standard output.
void print_json(const nlohmann::ordered_json& json);

// Each subcommand has a file of its own in tools/commands/.
void add_compile(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_explain_miss(CLI::App& app, Context& context);
void add_suggest(CLI::App& app, Context& context);
void add_study(CLI::App& app, Context& context);
void add_bundle(CLI::App& app, Context& context);
void add_cache(CLI::App& app, Context& context);
void add_calibrate(CLI::App& app, Context& context);
void add_smooth(CLI::App& app, Context& context);
void add_quantize_checkpoint(CLI::App& app, Context& context);
void add_convert(CLI::App& app, Context& context);
void add_devices(CLI::App& app, Context& context);
void add_operators(CLI::App& app, Context& context);

}  // namespace cubit::tools
