// cubit bench: the time of one kernel beside the time of a plain read of the same bytes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tools/benchmark.hpp"
#include "tools/error.hpp"
#include "tools/problem_options.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kHelp =
    R"(Times a kernel on a GPU: CUDA-graph replays of at least 8 launches over copies of the inputs that exceed the L2
cache, the median of 15; and in the same run the read floor, a plain read of the same number of bytes.)";

constexpr const char* kExamples = R"(
Examples:
  cubit bench gqa_decode:heads_per_kv=8 --random batch=128,context=8192,kv_heads=1
  cubit bench gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 --random batch=512,context=8192,kv_heads=1 --json
  cubit bench gqa_decode:heads_per_kv=8 --input case.safetensors --device cuda:1

Exit code: 0 good, 1 it failed or there is no GPU, 2 bad input.)";

struct BenchOptions {
  ProblemOptions problem;
  bool json = false;
};

int bench(const BenchOptions& options, Context& context) {
  if (options.problem.architectures) parse_architectures(*options.problem.architectures);
  const Problem problem = options.problem.make();
  const ChosenDevice chosen = choose_device(options.problem);
  if (!chosen.device) throw WorkFailed("no GPU", chosen.trouble, "cubit bench needs one; nothing was timed");
  const std::string descriptor = canonical(options.problem.descriptor);
  const Engine engine = context.engine();
  const Kernel kernel = engine.get(descriptor, run_architecture(options.problem, chosen.facts));
  const auto json = benchmark(descriptor, *chosen.device, chosen.facts, problem, kernel, engine);
  if (options.json) {
    print_json(json);
  } else {
    fmt::print("{}", benchmark_text(json));
  }
  return kExitGood;
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("bench", kHelp);
  auto options = std::make_shared<BenchOptions>();
  options->problem.add_to(*command);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(kExamples);
  command->final_callback(
      [options, &context] { context.action = [options, &context] { return bench(*options, context); }; });
}

}  // namespace cubit::tools
