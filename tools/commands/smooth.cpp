// cubit smooth: folds the factors of SmoothQuant into a checkpoint.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "files/output_file.hpp"
#include "files/output_folder.hpp"
#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tools/calibrate/smooth_report.hpp"
#include "tools/checkpoint/layer.hpp"
#include "tools/new_checkpoint/smoother.hpp"
#include "tools/new_checkpoint/whole_folder.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kHelp =
    R"(Moves the range of outlier channels from the inputs of layers to their weights (SmoothQuant): each norm is divided
by a factor per channel, and the layers that read the norm are multiplied by the factor. The network computes the same
function, and INT8 loses less. Tensors keep their types. The table shows the output error of INT8: the squared error
relative to the mean square of the outputs, on all recorded tokens after a search, on a sample for a given alpha.)";

constexpr const char* kExamples = R"(
Examples:
  cubit smooth model --activations activations --output smoothed
  cubit smooth model --activations activations --alpha 0.8 --output smoothed --pictures pictures
  cubit smooth model --activations activations --mapping mapping.json --output smoothed
      a model that has no built-in mapping of norms to layers; docs/calibration.md describes the file
The output folder appears with all of its files or not at all. The same command continues after an interruption.

Exit code: 0 success; 1 the output could not be written; 2 bad input.)";

struct SmoothOptions {
  std::string checkpoint;
  std::string activations;
  std::string alpha = "search";
  std::string output;
  std::string mapping;
  std::string architecture;
  std::string report;
  std::string pictures;
  bool json = false;
};

/// The alpha that the user gave; none if it shall be searched.
std::optional<double> given_alpha(const std::string& text) {
  if (text == "search") return std::nullopt;
  double alpha = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
  if (error != std::errc() || end != text.data() + text.size() || !(alpha >= 0 && alpha <= 1))
    throw BadInput("--alpha " + text, "is not a share", "accepted: search, or a number from 0 to 1");
  return alpha;
}

void write_reports(const SmoothOptions& options, const SmoothReport& report) {
  std::optional<PictureFolder> pictures;
  if (!options.pictures.empty()) pictures.emplace(options.pictures);
  for (const SmoothedGroup& one : report.groups)
    if (pictures) pictures->write(one.group.norm, channels_picture(one));
  if (!options.report.empty()) OutputFile(options.report).commit_text(json_text(smooth_json(report)) + "\n");
  if (pictures) pictures->publish();
}

int run_smooth(const SmoothOptions& options, Context& context) {
  Smoother smoother(
      {options.checkpoint, options.activations, given_alpha(options.alpha), options.mapping, options.architecture},
      context.console);
  if (!options.report.empty()) {
    require_another_file("--report", options.report, checkpoint_files(options.checkpoint));
    require_another_file("--report", options.report, calibrate::activation_files(options.activations));
    require_another_file("--report", options.report, options.mapping);
    require_writable(options.report);
  }
  if (!options.pictures.empty()) require_folder(options.pictures, "--pictures");
  WholeFolder folder(options.output, "--output", smoother.request_text());
  smoother.choose(folder);
  smoother.write(folder);
  const SmoothReport& report = smoother.report();
  folder.publish([&] { write_reports(options, report); });
  options.json ? print_json(smooth_json(report)) : fmt::print("{}", smooth_table(report));
  return kExitGood;
}

}  // namespace

void add_smooth(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("smooth", kHelp);
  auto options = std::make_shared<SmoothOptions>();
  command
      ->add_option("checkpoint", options->checkpoint, "A safetensors file, the index of several files, or the folder")
      ->required();
  command->add_option("--activations", options->activations, "A folder of recorded activations, or one file")
      ->required();
  command->add_option("--output", options->output, "Write the checkpoint to this folder, which must be new or empty")
      ->required();
  command->add_option("--alpha", options->alpha, "A number from 0 to 1, or search (default: search)");
  command->add_option("--architecture", options->architecture, "model_type of the mapping (default: of config.json)");
  command->add_option("--mapping", options->mapping, "Read the mapping of norms to layers from this JSON file");
  command->add_option("--report", options->report, "Write a JSON report to this file");
  command->add_option("--pictures", options->pictures, "Write the ranges of channels to this folder, as SVG");
  command->add_flag("--json", options->json, "Print the JSON report instead of the table");
  command->footer(kExamples);
  command->final_callback(
      [options, &context] { context.action = [options, &context] { return run_smooth(*options, context); }; });
}

}  // namespace cubit::tools
