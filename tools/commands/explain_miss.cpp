// cubit explain-miss: says why a kernel is not in any cache, by comparing the request with the nearest stored entry.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kMissExamples = R"(
Examples:
  cubit explain-miss gqa_decode:heads_per_kv=8 --arch sm_90a
  cubit explain-miss gqa_decode:heads_per_kv=8 --arch cpu:sm_90a --cache-dir ship/ --json
  CUBIT_BUNDLES=ship.cubit CUBIT_PUBLIC_KEYS=$(cat release.public) cubit explain-miss merge --arch sm_90a
      the answer of a process that has these bundles and keys

Exit code: 0 if a store holds every kernel of the descriptor, 1 if one is not, 2 for bad input.)";

struct MissOptions {
  std::string descriptor;
  std::string architecture;
  bool json = false;
};

using Json = nlohmann::ordered_json;

bool is_cached(const Json& kernel) { return !kernel.at("cached_in").get<std::string>().empty(); }

std::string text_of(const Json& json, const char* name) { return printable(json.at(name).get<std::string>()); }

void print_kernel(const Json& kernel) {
  fmt::print("{}: ", text_of(kernel, "descriptor"));
  if (is_cached(kernel)) {
    fmt::print("cached in {}\n", text_of(kernel, "cached_in"));
    return;
  }
  const Json& nearest = kernel.at("nearest");
  if (nearest.is_null()) {
    fmt::print("in no store, and the stores have no entries\n");
  } else {
    fmt::print("in no store; the nearest entry is {} of NVRTC {} in {}\n", text_of(nearest, "descriptor"),
               text_of(nearest, "compiler"), text_of(nearest, "store"));
    for (const Json& difference : nearest.at("differences"))
      fmt::print("  {}\n", printable(difference.get<std::string>()));
  }
  for (const Json& store : kernel.at("unused"))
    fmt::print("  {} is not used: {}\n", text_of(store, "store"), text_of(store, "reason"));
}

int explain_misses(const MissOptions& options, Context& context) {
  context.require_existing_cache_dir();
  const Engine engine = context.server(context.console.log(context.verbose));
  const Json kernels = Json::parse(engine.explain_miss(context.resolved(options.descriptor), options.architecture));
  bool all = true;
  for (const Json& kernel : kernels) {
    all = all && is_cached(kernel);
    if (!options.json) print_kernel(kernel);
  }
  if (options.json) print_json(kernels);
  return all ? kExitGood : kExitWorkFailed;
}

}  // namespace

void add_explain_miss(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "explain-miss", "Says whether a kernel is cached, or which input of the nearest entry differs.");
  auto options = std::make_shared<MissOptions>();
  command->add_option("DESCRIPTOR", options->descriptor, "operator:field=value,...")->required();
  command->add_option("--arch", options->architecture, "Architecture such as sm_90a, or cpu:sm_90a for PTX")
      ->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(kMissExamples);
  command->final_callback(
      [options, &context] { context.action = [options, &context] { return explain_misses(*options, context); }; });
}

}  // namespace cubit::tools
