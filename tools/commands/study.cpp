// cubit study: comparisons on this machine. This file has split_k, which repeats a publication's comparison on a GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <new>

#include "files/text/error.hpp"
#include "tools/bench/benchmark.hpp"
#include "tools/bench/results.hpp"
#include "tools/bench/table.hpp"
#include "tools/commands/study_commands.hpp"
#include "tools/options/problem_options.hpp"
#include "tools/study/split_k.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp = R"(Comparisons on this machine: of ways to share work, and of the accuracy of formats.)";

constexpr const char* kExamples = R"(
Examples:
  cubit study accuracy --json accuracy.json --picture accuracy.svg
  cubit study kv --json kv.json --picture kv.svg
  cubit study split_k --json split_k.json
  cubit study split_k --rows 1,16 --sizes 4096 --splits 4,8
  cubit study split_k --dry-run)";

constexpr const char* kSplitKHelp =
    R"(Compares the ways in which the blocks of w4a16_gemm share k: data-parallel, split-K and split-K with atomics by
factor, stream-K, and automatic, for few rows M and square weights n = k, as in arXiv 2402.00025. All launches of a cell
have tiles of 256 columns and of the smallest tile_m that holds the rows. "automatic" has the tiles that cubit suggest
chooses for the GPU, and cubit chooses how the blocks share k.

Times are those of cubit bench. A speedup is the time of data-parallel divided by the entry's own time. "blocks/SM" is
the number of blocks that one multiprocessor holds, and the occupancy is the share of its warps that they have.)";

constexpr const char* kSplitKExamples = R"(
Examples:
  cubit study split_k --json split_k.json
      writes the JSON anew after each launch that is measured; docs/split_k.md says how it becomes tables
  cubit study split_k --rows 16 --sizes 4096 --device cuda:1
  cubit study split_k --rows 1 --sizes 128 --splits 2 --device cpu
      a small case on the CPU device: shows that everything works; the times mean nothing

Exit code: 0 success; 1 a launch failed, or there is no GPU; 2 bad input.)";

struct StudyOptions {
  ProblemOptions device;            ///< of which only the device and the architecture are used
  std::optional<std::string> json;  ///< a file, or "" for standard output
  std::optional<std::string> rows;
  std::optional<std::string> sizes;
  std::optional<std::string> splits;
  bool dry_run = false;

  bool prints_json() const { return json && json->empty(); }
};

SplitKStudy study_of(const StudyOptions& options) {
  SplitKStudy study;
  if (options.rows) study.rows = parse_rows(*options.rows);
  if (options.sizes) study.sizes = parse_sizes(*options.sizes);
  if (options.splits) study.splits = parse_splits(*options.splits);
  return study;
}

/// Prints each entry as soon as it is measured.
class Printer {
 public:
  explicit Printer(bool as_json) : as_json_(as_json) {}
  void print(const Json& entry) { show(as_json_ ? array_.next(entry) : rows_.next(entry)); }
  void finish() {
    if (as_json_) show(array_.end() + "\n");
  }

 private:
  static void show(const std::string& text) {
    fmt::print("{}", text);
    static_cast<void>(std::fflush(stdout));  // main reports a failed write; an interrupted run keeps what was printed
  }

  SplitKRows rows_;
  JsonArrayText array_;
  bool as_json_;
};

/// The device and the engine of all launches of a study.
class StudyRun {
 public:
  StudyRun(const StudyOptions& options, Context& context)
      : options_(options.device),
        chosen_(choose_device(options.device)),
        engine_(context.engine()),
        benchmark_(device(), chosen_.facts, engine_, false) {}

  /// Adds the measurement, or "skipped" with the reason. Returns false for an unexpected failure.
  bool measure(Json& entry) {
    try {
      add_measurement(entry);
      return true;
    } catch (const Error& error) {
      entry["skipped"] = error.what();
      return error.code() == CUBIT_UNSUPPORTED || error.code() == CUBIT_INVALID_ARGUMENT;
    } catch (const std::bad_alloc&) {
      entry["skipped"] = "it needs more memory than this machine has";
    }
    return false;
  }

 private:
  const Device& device() const {
    if (chosen_.device) return *chosen_.device;
    throw WorkFailed("no GPU", chosen_.trouble, "cubit study needs a GPU; nothing was timed");
  }

  std::string descriptor_of(const Json& entry) const {
    const auto descriptor = entry.at("descriptor").get<std::string>();
    if (entry.at("decomposition") != kAutomatic) return canonical(descriptor);
    Numbers sizes;
    for (const char* name : {"m", "n", "k"}) sizes.emplace_back(name, entry.at("sizes").at(name).get<double>());
    const nlohmann::json& facts = chosen_.facts;
    return suggest(descriptor, sizes, facts.at("architecture"), facts.at("multiprocessors"),
                   facts.at("memory_bytes_per_second"));
  }

  void add_measurement(Json& entry) {
    const std::string descriptor = descriptor_of(entry);
    const Problem problem = Problem::random(descriptor, case_sizes(entry), 1);
    const Kernel kernel = engine_.get(descriptor, run_architecture(options_, chosen_.facts));
    entry.update(benchmark_.measure(descriptor, problem, kernel));
    add_kernel_and_launch(entry, Json::parse(kernel.describe()),
                          Json::parse(problem.describe_launch(kernel, device())));
  }

  const ProblemOptions& options_;
  ChosenDevice chosen_;
  Engine engine_;
  Benchmark benchmark_;
};

bool measure(const Json& entries, const StudyOptions& options, const ResultsFile* file, Context& context) {
  StudyRun run(options, context);
  Printer printer(options.prints_json());
  const auto start = std::chrono::steady_clock::now();
  const bool good = measure_cases(
      entries, {.announce =
                    [&](std::size_t i) {
                      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
                      context.console.status(progress_text(i, entries.size(), elapsed.count(),
                                                           entries[i].at("descriptor").get<std::string>()));
                    },
                .measure = [&](Json& one) { return run.measure(one); },
                .publish =
                    [&](const Json& measured) {
                      const Json published = published_entries(measured, kDataParallel);
                      if (file != nullptr) file->replace(json_text(published) + "\n");
                      context.console.status("");
                      printer.print(published.back());
                    }});
  printer.finish();
  return good;
}

int study_split_k(const StudyOptions& options, Context& context) {
  if (options.device.architectures) parse_architectures(*options.device.architectures);
  const Json entries = split_k_entries(study_of(options));
  std::unique_ptr<ResultsFile> file;
  if (options.json && !options.prints_json()) file = std::make_unique<ResultsFile>(*options.json);
  if (!options.dry_run) return measure(entries, options, file.get(), context) ? kExitGood : kExitWorkFailed;
  const Json published = published_entries(entries, "");
  if (file) file->replace(json_text(published) + "\n");
  options.prints_json() ? print_json(published) : fmt::print("{}", split_k_plan(published));
  return kExitGood;
}

}  // namespace

void add_study(CLI::App& app, Context& context) {
  CLI::App* study = app.add_subcommand("study", kHelp);
  study->require_subcommand(1);
  study->footer(kExamples);
  add_study_accuracy(*study, context);
  add_study_kv(*study, context);
  CLI::App* command = study->add_subcommand("split_k", kSplitKHelp);
  auto options = std::make_shared<StudyOptions>();
  command->add_option("--rows", options->rows, "Numbers of rows M (default: 1,2,4,8,16)");
  command->add_option("--sizes", options->sizes, "Sizes n = k (default: 512,1024,2048,4096,8192,16384)");
  command->add_option("--splits", options->splits, "Split-K factors (default: 2,4,8,16)");
  command->add_option("--device", options->device.device,
                      "Where to run: cuda:0, …, or cpu (default: the first that cubit devices lists)");
  command->add_option("--arch", options->device.architectures,
                      "The architecture to compile for (default: the device's architecture)");
  command
      ->add_option("--json", options->json, "Write JSON to this file, anew after each launch; without a file, print it")
      ->expected(0, 1);
  command->add_flag("--dry-run", options->dry_run, "List the launches and time nothing");
  command->footer(kSplitKExamples);
  command->final_callback(
      [options, &context] { context.action = [options, &context] { return study_split_k(*options, context); }; });
}

}  // namespace cubit::tools
