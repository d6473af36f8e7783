// cubit quantize-checkpoint: quantises the linear layers of a dense checkpoint to 8 bits.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files/output_file.hpp"
#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tools/checkpoint/layer.hpp"
#include "tools/new_checkpoint/quantiser.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kHelp =
    R"(Quantises the linear layers of a checkpoint in F16, BF16 or F32 to INT8 or FP8, in the layout that compressed-tensors
calls int-quantized or float-quantized: NAME.weight holds the codes, NAME.weight_scale the scales. cubit run w8a8_gemm
--weights reads such layers. A layer is a tensor NAME.weight with two dimensions [n, k]. Weights of architectures that
store [k, n], such as GPT-2, are transposed. Embeddings, ignored layers and
sizes that w8a8_gemm does not take stay as they are, and the table says why. config.json states the quantisation.
Weights are quantised by the largest magnitude of each output channel, rounded to nearest. The column "error" is the
root mean square of the rounding errors relative to that of the weights.)";

constexpr const char* kExamples = R"(
Examples:
  cubit quantize-checkpoint model --output model_int8
  cubit quantize-checkpoint model --format e4m3 --output model_fp8
  cubit quantize-checkpoint smoothed --scales scales.safetensors --output model_int8
      activations are quantised by the scales that cubit calibrate --output has written
  cubit quantize-checkpoint model --ignore lm_head --ignore '*.mlp.gate' --output model_int8
The output folder appears with all of its files or not at all. The same command continues after an interruption.

Exit code: 0 success; 1 the output could not be written; 2 bad input.)";

struct QuantizeOptions {
  std::string checkpoint;
  std::string output;
  std::string format = "int8";
  std::string scale = "channel";
  std::string scales;
  std::vector<std::string> ignored = {"lm_head"};
  std::string mapping;
  std::string report;
  bool json = false;
};

QuantisationRequest request_of(const QuantizeOptions& options) {
  if (options.format != "int8" && options.format != "e4m3")
    throw BadInput("--format " + options.format, "is not a format of weights", "accepted: int8, e4m3");
  if (options.scale != "channel" && options.scale != "tensor")
    throw BadInput("--scale " + options.scale, "does not say which weights share a scale", "accepted: channel, tensor");
  return {calibrate::parse_format(options.format), options.scale == "channel", options.ignored, options.scales,
          options.mapping};
}

int quantize_checkpoint(const QuantizeOptions& options, Console& console) {
  CheckpointQuantiser quantiser(options.checkpoint, request_of(options));
  if (!options.report.empty()) {
    require_another_file("--report", options.report, checkpoint_files(options.checkpoint));
    require_another_file("--report", options.report, options.scales);
    require_another_file("--report", options.report, options.mapping);
    require_writable(options.report);
  }
  WholeFolder folder(options.output, "--output", quantiser.request_text());
  quantiser.write(folder, [&](std::uint64_t read, std::uint64_t all, const std::string& tensor) {
    constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;
    console.progress(read / kMebi, all / kMebi + 1, "MiB, " + tensor);
  });
  console.status("");
  const nlohmann::ordered_json json = quantisation_json(quantiser);
  folder.publish([&] {
    if (!options.report.empty()) OutputFile(options.report).commit_text(json_text(json) + "\n");
  });
  options.json ? print_json(json) : fmt::print("{}", quantisation_table(quantiser));
  return kExitGood;
}

}  // namespace

void add_quantize_checkpoint(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("quantize-checkpoint", kHelp);
  auto options = std::make_shared<QuantizeOptions>();
  command
      ->add_option("checkpoint", options->checkpoint, "A safetensors file, the index of several files, or the folder")
      ->required();
  command->add_option("--output", options->output, "Write the checkpoint to this folder, which must be new or empty")
      ->required();
  command->add_option("--format", options->format, "int8 or e4m3 (default: int8)");
  command->add_option("--scale", options->scale, "Weights that share a scale: channel or tensor (default: channel)");
  command->add_option(
      "--scales", options->scales,
      "Scales of activations, from cubit calibrate --output (default: activations are quantised per token)");
  command
      ->add_option("--ignore", options->ignored,
                   "Keep the layers that match this pattern with * and ? (may be repeated; default: lm_head)")
      ->allow_extra_args(false);
  command->add_option(
      "--mapping", options->mapping,
      "Read the layout of the weights from this JSON file (default: the layout of config.json's model_type)");
  command->add_option("--report", options->report, "Write a JSON report to this file");
  command->add_flag("--json", options->json, "Print the JSON report instead of the table");
  command->footer(kExamples);
  command->final_callback([options, &context] {
    context.action = [options, &context] { return quantize_checkpoint(*options, context.console); };
  });
}

}  // namespace cubit::tools
