// cubit bench: the time of one kernel, or of an operator's whole table, beside the time of a plain read or copy of the
// same bytes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <new>

#include "tools/bench/benchmark.hpp"
#include "tools/bench/roofline.hpp"
#include "tools/bench/table.hpp"
#include "tools/files/output_file.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/problem_options.hpp"
#include "tools/text/error.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    R"(Times a kernel on a GPU: CUDA-graph replays of about 800 us over copies of the inputs that exceed the L2
cache, the median of 15; and in the same run the floor: a plain read of the same number of bytes, or, for a kernel that
writes at least a fifth of what it reads, a plain copy of the same number.
Given an operator alone, times the operator's table of cases and shows what each shall reach.)";

constexpr const char* kExamples = R"(
Examples:
  cubit bench gqa_decode --json results.json --svg roofline.svg
  cubit bench gqa_decode --dry-run
  cubit bench gqa_decode --only ragged --set batch=2,context=64 --device cpu
      cases made small, on the CPU device: shows that all works, the times say nothing
  cubit bench w4a16_gemm --decomposition all --only M=16
      split-K and stream-K, and sums added by atomics, beside data-parallel: "speedup" is that one's time over its own
  cubit bench gqa_decode:heads_per_kv=8 --random batch=128,context=8192,kv_heads=1
  cubit bench gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 --random batch=512,context=8192,kv_heads=1 --json
  cubit bench gqa_decode:heads_per_kv=8 --input case.safetensors --device cuda:1

Exit code: 0 good, 1 it failed or there is no GPU, 2 bad input.)";

struct BenchOptions {
  ProblemOptions problem;
  std::optional<std::string> json;  ///< a file, or "": print it
  std::optional<std::string> svg;
  std::string only;                          ///< cases whose group, name or descriptor contains this
  std::optional<std::string> decomposition;  ///< "all", or the name of one
  bool overlap = false;
  bool dry_run = false;
};

/// What the operator has against the case's sizes, before it makes data of them; nothing where it takes them.
std::optional<Error> refused_sizes(const Json& one) {
  constexpr const char* kNoSize = "~";  // refused too, after all others, also by name: the data are never made
  Numbers sizes = case_sizes(one);
  sizes.emplace_back(kNoSize, 0);
  try {
    Problem::random(one.at("descriptor"), sizes, 1);
  } catch (const Error& error) {
    if (error.given() != fmt::format("size {}", kNoSize)) return error;
  }
  return std::nullopt;
}

/// Throws cubit::Error where --set has what no case takes.
void require_taken_sizes(const Json& cases) {
  std::optional<Error> first;
  for (const Json& one : cases) {
    std::optional<Error> error = refused_sizes(one);
    if (!error) return;
    if (!first) first = std::move(error);
  }
  if (first) throw Error(*first);
}

/// The cases of the operator that is given alone and without data; none where one kernel is to be timed.
Json table_of(const BenchOptions& options) {
  const ProblemOptions& problem = options.problem;
  if (problem.descriptor.find(':') != std::string::npos || problem.input || problem.random || problem.weights)
    return Json::array();
  const Json known = Json::parse(operators());
  Json cases = with_sizes(bench_cases(known, problem.descriptor), problem.join_numbers());
  if (!cases.empty() && !options.only.empty()) {
    cases = matching(cases, options.only);
    if (cases.empty()) throw BadInput("--only " + options.only, "no case of the table has it", "see --dry-run");
  }
  if (!problem.numbers.empty()) require_taken_sizes(cases);
  return options.decomposition ? with_decompositions(cases, known, problem.descriptor, *options.decomposition) : cases;
}

/// What the device is needed for throughout, with its floors.
class Run {
 public:
  Run(const BenchOptions& options, Context& context)
      : options_(options.problem),
        chosen_(choose_device(options.problem)),
        engine_(context.engine()),
        benchmark_(device(), chosen_.facts, engine_, options.overlap) {}

  Json measure(const std::string& descriptor, const Problem& problem) {
    return benchmark_.measure(descriptor, problem, engine_.get(descriptor, run_architecture(options_, chosen_.facts)));
  }

 private:
  const Device& device() const {
    if (chosen_.device) return *chosen_.device;
    throw WorkFailed("no GPU", chosen_.trouble, "cubit bench needs one; nothing was timed");
  }

  const ProblemOptions& options_;
  ChosenDevice chosen_;
  Engine engine_;
  Benchmark benchmark_;
};

/// Why a case of the table cannot be had from this version; "" where it can.
std::string why_not(const Json& one) {
  try {
    canonical(one.at("descriptor"));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// The same, and of sizes that a run would refuse.
std::string why_not_planned(const Json& one) {
  const std::string why = why_not(one);
  const std::optional<Error> error = why.empty() ? refused_sizes(one) : std::nullopt;
  return error ? error->what() : why;
}

/// Adds the measurement to the case, or why there is none. False for a failure that should not have been.
bool measure_case(Json& one, Run& run) {
  const std::string why = why_not(one);
  if (!why.empty()) {
    one["skipped"] = why;
    return true;
  }
  try {
    const std::string descriptor = canonical(one.at("descriptor"));
    one.update(run.measure(descriptor, Problem::random(descriptor, case_sizes(one), 1)));
    return true;
  } catch (const Error& error) {
    one["skipped"] = error.what();
    // A case may name what this architecture has not, and a descriptor rule out a decomposition, as batch_invariant
    // does stream-K.
    return error.code() == CUBIT_UNSUPPORTED ||
           (one.contains("decomposition") && error.code() == CUBIT_INVALID_ARGUMENT);
  } catch (const std::bad_alloc&) {
    one["skipped"] = "it needs more memory than this machine has";
  }
  return false;
}

/// Measures every case, or with --dry-run none. One that fails does not cost the others.
bool measure_table(Json& cases, const BenchOptions& options, Context& context) {
  if (options.dry_run) {
    for (Json& one : cases) one["skipped"] = why_not_planned(one);
    return true;
  }
  Run run(options, context);
  bool good = true;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    context.console.progress(i, cases.size(), cases[i].at("descriptor").get<std::string>());
    good = measure_case(cases[i], run) && good;
  }
  context.console.progress(cases.size(), cases.size(), "");
  if (options.decomposition)
    add_speedups(cases, first_decomposition(Json::parse(operators()), options.problem.descriptor));
  return good;
}

Json measure_one(const BenchOptions& options, Context& context) {
  if (options.dry_run) throw BadInput("--dry-run", "lists an operator's table", "give the operator alone");
  if (options.decomposition) {
    throw BadInput("--decomposition", "compares over an operator's table",
                   "give the operator alone, or --set decomposition=split_k for one case");
  }
  const Problem problem = options.problem.make();
  return Run(options, context).measure(canonical(options.problem.descriptor), problem);
}

/// Opened before the work, so that a folder that cannot be written shows at once.
std::unique_ptr<OutputFile> open_output(const char* option, const std::optional<std::string>& path,
                                        const BenchOptions& options, const Context& context) {
  if (!path || path->empty()) return nullptr;
  options.problem.require_another_file(option, *path, context.scores);
  return std::make_unique<OutputFile>(*path);
}

/// The second to be renamed would replace the first.
void require_two_files(const OutputFile* json, const OutputFile* svg) {
  namespace fs = std::filesystem;
  if (json == nullptr || svg == nullptr || fs::weakly_canonical(json->path()) != fs::weakly_canonical(svg->path()))
    return;
  throw BadInput("--svg " + svg->path(), "is the file of --json", "give the name of another file");
}

int bench(const BenchOptions& options, Context& context) {
  if (options.problem.architectures) parse_architectures(*options.problem.architectures);
  Json results = table_of(options);
  const bool is_table = !results.empty();
  const auto json_file = open_output("--json", options.json, options, context);
  const auto svg_file = open_output("--svg", options.svg, options, context);
  require_two_files(json_file.get(), svg_file.get());
  bool good = true;
  if (is_table) {
    good = measure_table(results, options, context);
    for (Json& one : results) one.erase("comparable");
  } else {
    results = measure_one(options, context);
  }
  if (json_file) json_file->commit_text(results.dump(2) + "\n");
  if (svg_file) svg_file->commit_text(roofline_picture(is_table ? results : Json::array({results})));
  if (options.json && !json_file) {
    print_json(results);
  } else {
    fmt::print("{}", is_table ? bench_table_text(results) : benchmark_text(results));
  }
  return good ? kExitGood : kExitWorkFailed;
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("bench", kHelp);
  auto options = std::make_shared<BenchOptions>();
  options->problem.add_to(*command, "the first that cubit devices lists");
  command->add_option("--json", options->json, "Write JSON to this file; without one, print it")->expected(0, 1);
  command->add_option("--svg", options->svg, "Write a roofline picture to this file");
  command->add_option("--only", options->only, "Of the operator's table, the cases whose text contains this");
  command->add_option("--decomposition", options->decomposition,
                      "Of the operator's table, each case once with each way to share its work (all), or with one: "
                      "data_parallel, split_k, stream_k, split_k_atomic. Cases have blocks that take all of them");
  command->add_flag(
      "--overlap", options->overlap,
      "Let each launch begin while the one before ends (programmatic dependent launch), where the kernel can");
  command->add_flag("--dry-run", options->dry_run, "List the operator's table and time nothing");
  command->footer(kExamples);
  command->final_callback([options, &context] {
    context.action = [options, &context] {
      require_descriptor_length(options->problem.descriptor, "");
      options->problem.descriptor = context.resolved(options->problem.descriptor);
      return bench(*options, context);
    };
  });
}

}  // namespace cubit::tools
