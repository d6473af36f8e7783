// cubit study accuracy: the error of INT8 by scales, calibration methods and SmoothQuant, through cubit's kernels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "files/output_file.hpp"
#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tools/bench/results.hpp"
#include "tools/checkpoint/layer.hpp"
#include "tools/commands/study_commands.hpp"
#include "tools/study/accuracy/accuracy_report.hpp"
#include "tools/study/accuracy/planted_subject.hpp"
#include "tools/study/accuracy/recorded_subject.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    R"(Compares INT8 with fp32 through cubit's kernels (quantize, norm_quantize, gate_quantize, w8a8_gemm) for every
combination of input scales, calibration methods, weight scales and SmoothQuant's alpha. The subject is a transformer
block of made-up weights with outlier channels in fixed places, or the recorded layers of a checkpoint.

An error is |INT8 - fp32| / |fp32| of an output. "static" scales come from calibration data and a method, "dynamic_tensor"
scales from the largest magnitude of the input itself, "dynamic_token" scales from each token. Scales of weights are
those of the largest magnitudes.)";

constexpr const char* kExamples = R"(
Examples:
  cubit study accuracy --json accuracy.json --picture accuracy.svg
  cubit study accuracy --hidden 1024 --inner 2048 --heads 16 --methods minmax --inputs static --weights tensor
      --alphas 0.5
  cubit study accuracy --checkpoint model --activations activations --layers '*.layers.0.*'
      layers that have a weight in the checkpoint and recorded inputs; without SmoothQuant: --alphas none

Exit code: 0 success; 1 there is no device, or a value exceeds fp16; 2 bad input.)";

struct AccuracyOptions {
  Int8ChoiceTexts choices;
  PlantedOptions planted;
  RecordedOptions recorded;
  ProblemOptions device;            ///< of which only the device and the architecture are used
  std::optional<std::string> json;  ///< a file, or "" for standard output
  std::string picture;
};

std::unique_ptr<AccuracySubject> subject_of(const AccuracyOptions& options, bool smooths, const KernelRunner& runner) {
  if (options.recorded.checkpoint.empty()) return std::make_unique<PlantedSubject>(options.planted, runner);
  RecordedOptions recorded = options.recorded;
  recorded.smooths = smooths;
  return std::make_unique<RecordedSubject>(recorded, options.planted.tokens, options.planted.calibration_tokens,
                                           runner);
}

void check_options(const AccuracyOptions& options) {
  if (options.device.architectures) parse_architectures(*options.device.architectures);
  if (options.recorded.checkpoint.empty() != options.recorded.activations.empty())
    throw BadInput("--checkpoint and --activations", "belong together", "give both, or none of the two");
  check(options.planted);
  if (options.recorded.checkpoint.empty()) return;
  for (const auto& inputs :
       {checkpoint_files(options.recorded.checkpoint), calibrate::activation_files(options.recorded.activations)}) {
    if (options.json) require_another_file("--json", *options.json, inputs);
    require_another_file("--picture", options.picture, inputs);
  }
}

Json entry_of(const AccuracySubject& subject, const InputChoice& input, bool per_channel, std::optional<double> alpha) {
  const AccuracyErrors errors = subject.measure(input, per_channel);
  Json entry = choice_json(input, per_channel, alpha);
  entry["error"] = errors.error;
  entry["layers"] = errors.layers;
  return entry;
}

Json measure_all(AccuracySubject& subject, const Int8Choices& choices, Console& console) {
  Json entries = Json::array();
  const std::size_t total = choices.alphas.size() * choices.per_channel.size() * choices.inputs.size();
  const auto start = std::chrono::steady_clock::now();
  for (const std::optional<double>& alpha : choices.alphas) {
    subject.smooth(alpha);
    for (const bool per_channel : choices.per_channel) {
      for (const InputChoice& input : choices.inputs) {
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        console.status(progress_text(entries.size(), total, elapsed.count(), text_of(input)));
        entries.push_back(entry_of(subject, input, per_channel, alpha));
      }
    }
  }
  console.status("");
  return entries;
}

int study_accuracy(const AccuracyOptions& options, Context& context) {
  check_options(options);
  const Int8Choices choices = parse_choices(options.choices);
  const bool prints_json = options.json && options.json->empty();
  std::optional<OutputFile> file;  // opened before the work begins
  if (options.json && !prints_json) file.emplace(*options.json);
  std::optional<OutputFile> picture;
  if (!options.picture.empty()) picture.emplace(options.picture);
  const KernelRunner runner(options.device, context);
  const std::unique_ptr<AccuracySubject> subject = subject_of(options, choices.alphas.size() > 1, runner);
  Json entries = measure_all(*subject, choices, context.console);
  Json study = {{"study", "accuracy"}, {"error", subject->error_name()}};
  study.update(origin_json(runner));
  study["case"] = subject->json();
  study["layers"] = subject->layer_names();
  study["entries"] = std::move(entries);
  if (picture) picture->commit_text(accuracy_picture(study));
  if (file) file->commit_text(json_text(study) + "\n");
  prints_json ? print_json(study) : fmt::print("{}", accuracy_tables(study));
  return kExitGood;
}

void add_sizes(CLI::App& command, AccuracyOptions& options) {
  PlantedOptions& planted = options.planted;
  command.add_option("--hidden", planted.sizes.hidden, "Channels of the made-up block (default: 256)");
  command.add_option("--inner", planted.sizes.inner, "Channels inside of its MLP (default: 512)");
  command.add_option("--heads", planted.sizes.heads, "Its attention heads (default: 4)");
  command.add_option("--tokens", planted.tokens, "Tokens whose output is compared (default: 16)");
  command.add_option("--calibration-tokens", planted.calibration_tokens, "Tokens for calibration (default: 64)");
  command.add_option("--outlier-norm", planted.outliers.norm,
                     "Factor of the norms' weights in 6 outlier channels (default: 100)");
  command.add_option("--outlier-weight", planted.outliers.weight,
                     "Divisor of the weights of these channels (default: 10)");
  command.add_option("--seed", planted.seed, "Seed of the made-up values (default: 1)");
}

}  // namespace

void add_study_accuracy(CLI::App& study, Context& context) {
  CLI::App* command = study.add_subcommand("accuracy", kHelp);
  auto options = std::make_shared<AccuracyOptions>();
  Int8ChoiceTexts& choices = options->choices;
  command->add_option("--inputs", choices.inputs, "Scales of inputs (default: static,dynamic_tensor,dynamic_token)");
  command->add_option("--methods", choices.methods,
                      "Methods of static scales (default: minmax,percentile,entropy,mse)");
  command->add_option("--weights", choices.weights, "Scales of weights (default: tensor,channel)");
  command->add_option("--alphas", choices.alphas,
                      "Values of SmoothQuant's alpha beside no SmoothQuant, or none (default: 0,0.25,0.5,0.75,1)");
  add_sizes(*command, *options);
  command->add_option("--checkpoint", options->recorded.checkpoint,
                      "A safetensors file, the index of several files, or the folder, instead of the made-up block");
  command->add_option("--activations", options->recorded.activations, "A folder of recorded activations, or one file");
  command
      ->add_option("--layers", options->recorded.layers,
                   "Only recorded layers that match this pattern with * and ? (may be repeated)")
      ->allow_extra_args(false);
  command->add_option("--architecture", options->recorded.architecture,
                      "model_type of SmoothQuant's mapping (default: of config.json)");
  command->add_option("--mapping", options->recorded.mapping,
                      "Read the mapping of norms to layers from this JSON file");
  command->add_option("--device", options->device.device, "Where to run: cuda:0, …, or cpu (default: a GPU, else cpu)");
  command->add_option("--arch", options->device.architectures,
                      "The architecture to compile for (default: the device's architecture)");
  command->add_option("--json", options->json, "Write JSON to this file; without a file, print it")->expected(0, 1);
  command->add_option("--picture", options->picture, "Write the errors over alpha to this SVG file");
  command->footer(kExamples);
  command->final_callback(
      [options, &context] { context.action = [options, &context] { return study_accuracy(*options, context); }; });
}

}  // namespace cubit::tools
