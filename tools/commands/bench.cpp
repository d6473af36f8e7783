// cubit bench: times one kernel, or all cases of an operator's table, in comparison with a plain read or copy of the
// same bytes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>

#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tools/bench/benchmark.hpp"
#include "tools/bench/results.hpp"
#include "tools/bench/roofline.hpp"
#include "tools/bench/table.hpp"
#include "tools/kernels/catalogue.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/problem_options.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    R"(Times a kernel on a GPU, and in the same run the kernel's floor. A time is the median of 15 CUDA-graph replays of
about 800 us over copies of the inputs that exceed the L2 cache. The floor is a plain read of the same number of bytes;
for a kernel that writes at least a fifth of the bytes it reads, the floor is a plain copy.
Given an operator alone, the command times the operator's table of cases and shows the target of each case. A case is
printed, and written to the file of --json, as soon as it is measured.)";

constexpr const char* kExamples = R"(
Examples:
  cubit bench gqa_decode --json results.json --svg roofline.svg
  cubit bench gqa_decode --dry-run
  cubit bench gqa_decode --only ragged --set batch=2,context=64 --device cpu
      small cases on the CPU device: shows that everything works; the times mean nothing
  cubit bench w4a16_gemm --decomposition all --only M=16
      compares data-parallel, split-K, stream-K and split-K with atomics; "speedup" is the time of data-parallel
      divided by the entry's own time
  cubit bench gqa_decode:heads_per_kv=8 --random batch=128,context=8192,kv_heads=1
  cubit bench gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 --random batch=512,context=8192,kv_heads=1 --json
  cubit bench gqa_decode:heads_per_kv=8 --input case.safetensors --device cuda:1

Exit code: 0 success; 1 a case failed, or there is no GPU; 2 bad input.)";

struct BenchOptions {
  ProblemOptions problem;
  std::optional<std::string> json;  ///< a file, or "" for standard output
  std::optional<std::string> svg;
  std::string only;                          ///< cases whose group, name or descriptor contains this
  std::optional<std::string> decomposition;  ///< "all", or the name of one decomposition
  bool overlap = false;
  bool dry_run = false;

  bool prints_json() const { return json && json->empty(); }
};

/// The operator's error about the sizes of a case, found without making data; empty if the operator accepts the sizes.
std::optional<Error> refused_sizes(const Json& one) {
  constexpr const char* kNoSize =
      "~";  // an unknown size: the operator reports it after all other errors, before it makes data
  Numbers sizes = case_sizes(one);
  sizes.emplace_back(kNoSize, 0);
  try {
    Problem::random(one.at("descriptor"), sizes, 1);
  } catch (const Error& error) {
    if (error.given() != fmt::format("size {}", kNoSize)) return error;
  }
  return std::nullopt;
}

/// Throws cubit::Error if no case accepts the sizes of --set.
void require_taken_sizes(const Json& cases) {
  std::optional<Error> first;
  for (const Json& one : cases) {
    std::optional<Error> error = refused_sizes(one);
    if (!error) return;
    if (!first) first = std::move(error);
  }
  if (first) throw Error(*first);
}

/// The cases of the operator's table, if the operator is given alone and without data. Empty if one kernel is to be
/// timed.
Json table_of(const BenchOptions& options) {
  const ProblemOptions& problem = options.problem;
  if (problem.descriptor.find(':') != std::string::npos || problem.input || problem.random || problem.weights)
    return Json::array();
  const Json known = operator_catalogue();
  Json cases = with_sizes(bench_cases(known, problem.descriptor), problem.join_numbers());
  if (!cases.empty() && !options.only.empty()) {
    cases = matching(cases, options.only);
    if (cases.empty())
      throw BadInput("--only " + options.only, "no case of the table contains this text", "--dry-run lists the cases");
  }
  if (!problem.numbers.empty()) require_taken_sizes(cases);
  return options.decomposition ? with_decompositions(cases, known, problem.descriptor, *options.decomposition) : cases;
}

/// The device, engine and floors that all cases of a run share.
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
    throw WorkFailed("no GPU", chosen_.trouble, "cubit bench needs a GPU; nothing was timed");
  }

  const ProblemOptions& options_;
  ChosenDevice chosen_;
  Engine engine_;
  Benchmark benchmark_;
};

/// The reason why this version cannot run a case; "" if it can.
std::string why_not(const Json& one) {
  try {
    canonical(one.at("descriptor"));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Like why_not, and also reports sizes that a run would refuse.
std::string why_not_planned(const Json& one) {
  const std::string why = why_not(one);
  const std::optional<Error> error = why.empty() ? refused_sizes(one) : std::nullopt;
  return error ? error->what() : why;
}

/// Adds the measurement to the case, or "skipped" with the reason. Returns false for an unexpected failure.
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
    // Expected: a case may name a feature that this architecture does not have, and a descriptor may exclude a
    // decomposition, as batch_invariant excludes stream-K.
    return error.code() == CUBIT_UNSUPPORTED ||
           (one.contains("decomposition") && error.code() == CUBIT_INVALID_ARGUMENT);
  } catch (const std::bad_alloc&) {
    one["skipped"] = "it needs more memory than this machine has";
  }
  return false;
}

/// Prints the entries of a table to standard output, each as soon as it is measured.
class TablePrinter {
 public:
  TablePrinter(const Json& cases, bool as_json) : rows_(cases), as_json_(as_json) {}

  void print(const Json& entry) { show(as_json_ ? array_.next(entry) : rows_.next(entry)); }
  void finish() {
    if (as_json_) show(array_.end() + "\n");
  }

 private:
  static void show(const std::string& text) {
    fmt::print("{}", text);
    static_cast<void>(std::fflush(stdout));  // main reports a failed write; an interrupted run keeps what was printed
  }

  BenchTableRows rows_;
  JsonArrayText array_;
  bool as_json_;
};

/// Files for the results; null if the option is missing.
struct ResultFiles {
  std::unique_ptr<ResultsFile> json;
  std::unique_ptr<ResultsFile> svg;

  void write(const Json& entries) const {
    if (json) json->replace(json_text(entries) + "\n");
    if (svg) svg->replace(roofline_picture(entries.is_array() ? entries : Json::array({entries})));
  }
};

/// Measures every case. A case that fails does not end the run.
bool measure_table(const Json& cases, const BenchOptions& options, const ResultFiles& files, Context& context) {
  Run run(options, context);
  const std::string first =
      options.decomposition ? first_decomposition(operator_catalogue(), options.problem.descriptor) : "";
  TablePrinter printer(cases, options.prints_json());
  const auto start = std::chrono::steady_clock::now();
  const bool good = measure_cases(
      cases, {.announce =
                  [&](std::size_t i) {
                    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
                    context.console.status(
                        progress_text(i, cases.size(), elapsed.count(), cases[i].at("descriptor").get<std::string>()));
                  },
              .measure = [&](Json& one) { return measure_case(one, run); },
              .publish =
                  [&](const Json& entries) {
                    const Json published = published_entries(entries, first);
                    files.write(published);
                    context.console.status("");
                    printer.print(published.back());
                  }});
  printer.finish();
  return good;
}

/// Shows the table for --dry-run, without measurements.
void show_plan(Json cases, const BenchOptions& options, const ResultFiles& files) {
  for (Json& one : cases) one["skipped"] = why_not_planned(one);
  const Json published = published_entries(cases, "");
  files.write(published);
  options.prints_json() ? print_json(published) : fmt::print("{}", bench_table_text(published));
}

Json measure_one(const BenchOptions& options, Context& context) {
  if (options.dry_run) throw BadInput("--dry-run", "lists an operator's table", "give the operator alone");
  if (options.decomposition) {
    throw BadInput("--decomposition", "compares the cases of an operator's table",
                   "give the operator alone, or --set decomposition=split_k for one case");
  }
  const Case one = options.problem.make(context.console);
  return Run(options, context).measure(one.descriptor, one.problem);
}

/// Checked before the measurements, so that a path that cannot be written is refused at once.
std::unique_ptr<ResultsFile> results_file(const char* option, const std::optional<std::string>& path,
                                          const BenchOptions& options, const Context& context) {
  if (!path || path->empty()) return nullptr;
  options.problem.require_another_file(option, *path, context.scores);
  return std::make_unique<ResultsFile>(*path);
}

/// Throws BadInput if --json and --svg name the same file: one would replace the other.
ResultFiles result_files(const BenchOptions& options, const Context& context) {
  namespace fs = std::filesystem;
  ResultFiles files{results_file("--json", options.json, options, context),
                    results_file("--svg", options.svg, options, context)};
  if (files.json && files.svg && fs::weakly_canonical(files.json->path()) == fs::weakly_canonical(files.svg->path()))
    throw BadInput("--svg " + files.svg->path(), "is the file of --json", "give the name of another file");
  return files;
}

int bench(const BenchOptions& options, Context& context) {
  if (options.problem.architectures) parse_architectures(*options.problem.architectures);
  const Json cases = table_of(options);
  const ResultFiles files = result_files(options, context);
  if (cases.empty()) {
    const Json result = measure_one(options, context);
    files.write(result);
    options.prints_json() ? print_json(result) : fmt::print("{}", benchmark_text(result));
    return kExitGood;
  }
  if (!options.dry_run) return measure_table(cases, options, files, context) ? kExitGood : kExitWorkFailed;
  show_plan(cases, options, files);
  return kExitGood;
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("bench", kHelp);
  auto options = std::make_shared<BenchOptions>();
  options->problem.add_to(*command, "the first that cubit devices lists");
  command
      ->add_option("--json", options->json, "Write JSON to this file, anew after each case; without a file, print it")
      ->expected(0, 1);
  command->add_option("--svg", options->svg, "Write a roofline picture to this file");
  command->add_option("--only", options->only, "Only the cases of the operator's table whose text contains this");
  command->add_option(
      "--decomposition", options->decomposition,
      "Time each case of the operator's table with every decomposition (all), or with one: data_parallel, "
      "split_k, stream_k, split_k_atomic. The cases have tiles that support all of them");
  command->add_flag(
      "--overlap", options->overlap,
      "Let each launch begin while the previous launch ends (programmatic dependent launch), if the kernel can");
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
