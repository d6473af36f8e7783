// cubit run: computes a case from a file or made-up data on a device. Without a device, it shows the kernel's report.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <thread>
#include <utility>

#include "files/output_file.hpp"
#include "files/text/error.hpp"
#include "tools/bench/benchmark.hpp"
#include "tools/kernels/check.hpp"
#include "tools/kernels/compile_jobs.hpp"
#include "tools/kernels/counters.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/problem_options.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kHelp =
    R"(Computes one case with one kernel on a GPU. The tensors come from a safetensors file or are made up. Without a GPU,
the CPU device executes the PTX for --arch (default sm_80). If the CPU device cannot help, because of --bench, because it
is not installed, or because --arch names several architectures, the command says so, compiles the kernels and shows
their resources.)";

constexpr const char* kExamples = R"(
Examples:
  cubit run gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 --input case.safetensors --output out.safetensors
      the file holds the operator's input tensors by name (see cubit operators); the output file is replaced whole;
      the rows of the tensors choose the field alignment if the operator has it and the descriptor leaves it out
  cubit run w4a16_gemm --weights folder --layer model.layers.0.mlp.down_proj --input activations.safetensors
      reads qweight, scales, … of one layer from a checkpoint: a file, the index of several files (*.json), or the
      folder; leave --layer out if the tensors' names have no layer, as in the output of w4_quantize. With --layer
      two or three times, one launch multiplies several layers, such as q_proj, k_proj and v_proj
  cubit run gqa_decode:heads_per_kv=8 --random batch=2,context=512,kv_heads=1,seed=7 --check
      compares with the double-precision reference; exit code 1 if the error is over the tolerance; a NaN is an
      infinite error, except where the reference is NaN too
  cubit run gqa_decode:heads_per_kv=8 --random batch=1 --device cpu --arch sm_120 --check-memory --counters
      executes the PTX of sm_120 on the CPU; finds races and reads of unwritten memory; counts bank conflicts and
      sectors
  cubit run gqa_decode:heads_per_kv=8 --random batch=128,context=8192,kv_heads=1 --set softmax_scale=0.1 --bench --json

Exit code: 0 success; 1 the work failed, or no device can do what --output, --check, --check-memory, --counters or
--bench ask for; 2 bad input.)";

constexpr const char* kMemoryChecked = "checked";

struct RunOptions {
  ProblemOptions problem;
  std::optional<std::string> output;
  bool check = false;
  bool check_memory = false;
  bool counters = false;
  bool bench = false;
  bool json = false;
};

void save_outputs(const Problem& problem, const HostTensors& outputs, OutputFile& file) {
  std::vector<TensorView> views;
  const auto tensors = problem.outputs();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    views.push_back(
        {tensors[i].name, tensors[i].type, {tensors[i].shape, tensors[i].shape + tensors[i].rank}, outputs[i]});
  }
  file.commit(views);
}

void print_result(const nlohmann::ordered_json& json) {
  const auto& kernel = json.at("kernel");
  fmt::print("{} on {} ({})", kernel.at("descriptor").get<std::string>(), json.at("device").get<std::string>(),
             json.at("arch").get<std::string>());
  if (kernel.at("registers").is_null()) {  // PTX: ptxas has not assigned registers
    fmt::print("\n");
  } else {
    fmt::print(": {} registers, {} bytes spilled\n", kernel.at("registers").get<int>(),
               kernel.at("spill_bytes").get<int>());
  }
  for (const auto& [name, tensor] : json.at("outputs").items()) {
    fmt::print("{} {} {}", name, tensor.at("type").get<std::string>(), tensor.at("shape").dump());
    if (tensor.contains("nan")) {
      fmt::print(": {} {} NaN", tensor.at("nan").get<std::size_t>(),
                 tensor.at("nan") == 1 ? "element is" : "elements are");
    } else if (tensor.contains("mean")) {
      fmt::print(": at most {:.3g}, mean {:.3g}", tensor.at("largest").get<double>(), tensor.at("mean").get<double>());
    }
    fmt::print("\n");
  }
  if (json.contains("output_file")) fmt::print("written to {}\n", printable(json.at("output_file").get<std::string>()));
  if (json.contains("check")) fmt::print("{}\n", check_text(json.at("check")));
  if (json.contains("memory")) {
    const bool checked = json.at("memory") == kMemoryChecked;
    fmt::print("memory: {}\n", checked ? "no race, no read of unwritten memory" : kNothingRan);
  }
  if (json.contains("bench")) fmt::print("{}", benchmark_text(json.at("bench")));
  if (json.contains("counters")) fmt::print("{}", counters_text(json.at("counters")));
}

/// Adds a summary of floats to describe_tensors: for example, the errors of quantised weights.
nlohmann::ordered_json describe_outputs(const Problem& problem, const HostTensors& outputs) {
  const auto tensors = problem.outputs();
  nlohmann::ordered_json json = describe_tensors(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) json[tensors[i].name].update(summarise(tensors[i].type, outputs[i]));
  return json;
}

struct Computed {
  HostTensors outputs;
  Kernel taken;  ///< the kernel, or the member of the set that the launch took
};

Computed compute(const Device& device, const Problem& problem, const Kernel& kernel) {
  const OwnedStream stream(device);
  DeviceCase on_device(device, problem, 1, stream);
  on_device.allocate_workspace(kernel);
  kernel.prepare(device);
  on_device.launch(kernel, 0);
  return {on_device.download_outputs(), on_device.taken(kernel)};
}

/// Watching the memory also counts: the counters show whether there was a launch.
void watch(const Device& device, const RunOptions& options) {
  if (!options.check_memory && !options.counters) return;
  device.watch((options.check_memory ? CUBIT_WATCH_MEMORY : 0) | CUBIT_WATCH_COUNTERS);
}

/// Adds the results of watching. Returns false if no kernel was launched, as for an empty batch.
bool add_watched(nlohmann::ordered_json& json, const RunOptions& options, const Device& device) {
  if (!options.check_memory && !options.counters) return true;
  auto launches = nlohmann::ordered_json::parse(device.counters());
  const bool any = !launches.empty();
  if (options.check_memory) json["memory"] = any ? kMemoryChecked : kNothingRan;
  if (options.counters) json["counters"] = std::move(launches);
  return any;
}

int run_on_device(const RunOptions& options, const Case& given, const ChosenDevice& chosen,
                  std::optional<OutputFile>& file, Context& context) {
  const std::string architecture = run_architecture(options.problem, chosen.facts);
  const auto& [descriptor, problem] = given;
  const Engine engine = context.engine();
  const Kernel kernel = engine.get(descriptor, architecture);
  watch(*chosen.device, options);
  const auto [outputs, taken] = compute(*chosen.device, problem, kernel);
  nlohmann::ordered_json json = {{"descriptor", descriptor},
                                 {"device", chosen.facts.at("description")},
                                 {"arch", architecture},
                                 {"kernel", nlohmann::ordered_json::parse(taken.describe())},
                                 {"inputs", describe_tensors(problem.inputs())},
                                 {"outputs", describe_outputs(problem, outputs)}};
  if (file) {
    save_outputs(problem, outputs, *file);
    json["output_file"] = *options.output;
  }
  const bool watched = add_watched(json, options, *chosen.device);
  if (options.check) json["check"] = check_outputs(problem, outputs);
  if (options.bench)
    json["bench"] = Benchmark(*chosen.device, chosen.facts, engine, false).measure(descriptor, problem, kernel);
  options.json ? print_json(json) : print_result(json);
  if (!watched) {
    context.console.say(fmt::format("{}: the case is empty, so no kernel ran that could be watched", descriptor));
    return kExitWorkFailed;
  }
  if (!options.check || json.at("check").at("good").get<bool>()) return kExitGood;
  context.console.say(descriptor + ": " + check_text(json.at("check")));
  return kExitWorkFailed;
}

/// Lists what a run without a GPU did not do.
std::string missing_results(const RunOptions& options) {
  std::string text = "nothing was computed";
  if (options.output) text += fmt::format(", {} was not written", *options.output);
  if (options.check) text += ", nothing was checked";
  if (options.bench) text += ", nothing was timed";
  if (options.check_memory) text += ", no memory was watched";
  if (options.counters) text += ", nothing was counted";
  return text;
}

/// Compiles and reports the kernels. The report alone is a failure if a launch was asked for.
int run_without_device(const RunOptions& options, const std::string& descriptor, const std::string& trouble,
                       Context& context) {
  const auto jobs = plan_jobs({{descriptor, ""}}, options.problem.architectures, false);
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const std::vector<CompileResult> results = compile_all(jobs, threads, context);
  if (options.json) {
    nlohmann::ordered_json json = {
        {"device", nullptr}, {"trouble", trouble}, {"kernels", nlohmann::ordered_json::array()}};
    for (const CompileResult& result : results) json["kernels"].push_back(to_json(result));
    print_json(json);
  } else {
    fmt::print("{}", compile_table(results));
  }
  const int exit_code = report_failures(results, context);
  context.console.say(fmt::format("no GPU: {}; {}; standard output has the report of the compiled kernels", trouble,
                                  missing_results(options)));
  const bool wants_a_launch =
      options.output || options.check || options.bench || options.check_memory || options.counters;
  return wants_a_launch ? kExitWorkFailed : exit_code;
}

std::optional<OutputFile> open_output(const RunOptions& options, const std::vector<std::string>& scores) {
  if (!options.output) return std::nullopt;
  options.problem.require_another_file("--output", *options.output, scores);
  return std::optional<OutputFile>(std::in_place, *options.output);
}

int run(const RunOptions& options, Context& context) {
  if (options.problem.architectures) parse_architectures(*options.problem.architectures);
  context.require_cache_folder();
  const bool watches = options.check_memory || options.counters;  // only the CPU device watches
  if (options.bench && (watches || means_cpu(options.problem.device))) {
    throw BadInput("--bench", "--device cpu, --check-memory and --counters use the CPU device, which cannot be timed",
                   "leave --bench out, or the other options");
  }
  canonical(options.problem.descriptor);  // a mistake in the descriptor is reported before a mistake in a file
  std::optional<OutputFile> file =
      open_output(options, context.scores);  // opened before data is made, which may take minutes
  const Case given = options.problem.make(context.console);
  ChosenDevice chosen = choose_device(options.problem);
  if (chosen.device && watches && !options.problem.device && !means_cpu(chosen.facts.at("name").get<std::string>())) {
    chosen = choose_cpu_device(options.problem);
    if (chosen.device) context.console.say("a GPU cannot watch a launch; the CPU device computes the case");
  }
  if (!chosen.device && !options.bench) {
    const std::string trouble = std::exchange(chosen, choose_cpu_device(options.problem)).trouble;
    if (chosen.device) context.console.say(fmt::format("no GPU: {}; the CPU device computes the case", trouble));
    chosen.trouble = trouble;
  }
  if (!chosen.device) return run_without_device(options, given.descriptor, chosen.trouble, context);
  return run_on_device(options, given, chosen, file, context);
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("run", kHelp);
  auto options = std::make_shared<RunOptions>();
  options->problem.add_to(*command, "the first that cubit devices lists, else cpu; with --bench the first");
  command->add_option("--output", options->output, "Write the output tensors to this safetensors file");
  command->add_flag("--check", options->check, "Compare with the double-precision reference");
  command->add_flag("--check-memory", options->check_memory,
                    "On the CPU device: end with an error at the first race or read of unwritten memory");
  command->add_flag("--counters", options->counters,
                    "On the CPU device: count instructions, bank conflicts and sectors");
  command->add_flag("--bench", options->bench, "Time the kernel, and a plain read or copy of the same bytes");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(kExamples);
  command->final_callback([options, &context] {
    context.action = [options, &context] {
      require_descriptor_length(options->problem.descriptor, "");
      options->problem.descriptor = context.resolved(options->problem.descriptor);
      return run(*options, context);
    };
  });
}

}  // namespace cubit::tools
