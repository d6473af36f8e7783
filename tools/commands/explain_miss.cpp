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

Exit code: 0 if a store holds every kernel of the descriptor, 1 if one is not, 2 for bad input.)";

struct MissOptions {
  std::string descriptor;
  std::string architecture;
  bool json = false;
};

using Json = nlohmann::ordered_json;

bool is_cached(const Json& kernel) { return !kernel.at("cached_in").get<std::string>().empty(); }

void print_kernel(const Json& kernel) {
  fmt::print("{}: ", printable(kernel.at("descriptor").get<std::string>()));
  if (is_cached(kernel)) {
    fmt::print("cached in {}\n", printable(kernel.at("cached_in").get<std::string>()));
    return;
  }
  const Json& nearest = kernel.at("nearest");
  if (nearest.is_null()) {
    fmt::print("in no store, and no store has an entry for this architecture\n");
    return;
  }
  fmt::print("in no store; the nearest entry is {} of NVRTC {} in {}\n",
             printable(nearest.at("descriptor").get<std::string>()),
             printable(nearest.at("compiler").get<std::string>()), printable(nearest.at("store").get<std::string>()));
  for (const Json& difference : nearest.at("differences"))
    fmt::print("  {}\n", printable(difference.get<std::string>()));
}

int explain_misses(const MissOptions& options, Context& context) {
  const Engine engine = context.cache_reader(context.console.log(context.verbose));
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
