// cubit calibrate: collects statistics of recorded activations and chooses quantisation ranges.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "files/file_lock.hpp"
#include "files/output_file.hpp"
#include "files/output_folder.hpp"
#include "files/safetensors/reader.hpp"
#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tools/calibrate/report.hpp"
#include "tools/calibrate/saver.hpp"
#include "tools/new_checkpoint/whole_folder.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kHelp =
    R"(Chooses the range of each layer's activations for quantisation to INT8 or FP8. The activations are safetensors files,
one per batch, whose tensors are named by the layer that receives them; the last dimension counts channels. Files may
be larger than memory. The table shows the error of every method: the squared error of quantisation relative to the
mean square of the values. --method minmax collects ranges only, and no errors, unless --statistics, --merge or
--pictures need more.)";

constexpr const char* kExamples = R"(
Examples:
  cubit calibrate activations --method mse --output scales.safetensors
  cubit calibrate activations --format e4m3 --report report.json --pictures pictures
  cubit calibrate activations --statistics statistics.safetensors
      keeps the statistics; the same command continues after an interruption and adds new files
  cubit calibrate --merge a.safetensors --merge b.safetensors --output scales.safetensors
      uses the statistics of two machines

Exit code: 0 success; 1 an output could not be written; 2 bad input.)";

struct CalibrateOptions {
  std::optional<std::string> activations;
  std::string method = "mse";
  std::string format = "int8";
  double percentile = 99.99;
  std::vector<std::string> layers;
  std::vector<std::string> merged;
  std::string statistics;
  std::string output;
  std::string report;
  std::string pictures;
  int threads = 0;
  bool json = false;
};

/// Whether two paths name one file that exists.
bool are_one_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return !a.empty() && !b.empty() && std::filesystem::equivalent(a, b, error);
}

/// Whether all tensors of a file are scales, as an earlier run has written them.
bool has_only_scales(const std::string& path) {
  const SafetensorsReader file(path);
  return std::all_of(file.tensors().begin(), file.tensors().end(), [](const HeaderEntry& tensor) {
    return tensor.name.ends_with(".input_scale") || tensor.name.ends_with(".input_zero_point");
  });
}

/// Throws BadInput if two of the options name the same file, whether it exists or not.
void require_own_file(const std::pair<std::string, std::string>& one,
                      const std::pair<std::string, std::string>& other) {
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(one.second, error);
  if (one.second.empty() || other.second.empty() || path != std::filesystem::weakly_canonical(other.second, error))
    return;
  throw BadInput(one.first + " " + one.second, "is also the file of " + other.first,
                 "give each file a name of its own");
}

/// Throws BadInput if an output cannot be written, or if it would replace an input or another output. Scales of an
/// earlier run may lie among the activations.
void check_outputs(const CalibrateOptions& options) {
  const std::pair<std::string, std::string> output = {"--output", options.output};
  const std::pair<std::string, std::string> report = {"--report", options.report};
  require_own_file(report, output);
  std::vector<std::string> activations;
  if (options.activations) activations = calibrate::activation_files(*options.activations);
  for (const auto& one : {output, report}) {
    const auto& [option, path] = one;
    if (path.empty()) continue;
    require_own_file(one, {"--statistics", options.statistics});
    require_another_file(option, path, options.merged);
    for (const std::string& file : activations)
      if (are_one_file(path, file) && !(path == options.output && has_only_scales(file)))
        require_another_file(option, path, file);
    require_writable(path);
  }
  if (!options.pictures.empty()) require_folder(options.pictures, "--pictures");
}

/// Statistics and scales may be kept beside the activations.
bool is_file_of_ours(const CalibrateOptions& options, const std::string& file) {
  return are_one_file(file, options.statistics) || are_one_file(file, options.output) ||
         std::any_of(options.merged.begin(), options.merged.end(),
                     [&](const std::string& merged) { return are_one_file(file, merged); });
}

/// The files that the statistics do not have yet. All headers are checked before the work begins.
std::vector<std::string> new_files(const CalibrateOptions& options, calibrate::Collector& collector) {
  std::vector<std::string> files;
  if (!options.activations) return files;
  for (const std::string& file : calibrate::activation_files(*options.activations)) {
    if (is_file_of_ours(options, file) || collector.has_file(file)) continue;
    files.push_back(file);
    collector.check_file(file);
  }
  return files;
}

std::uint64_t bytes_of_files(const std::vector<std::string>& files) {
  std::uint64_t bytes = 0;
  for (const std::string& file : files) bytes += std::filesystem::file_size(file);
  return bytes;
}

void collect(const CalibrateOptions& options, calibrate::Collector& collector, Context& context) {
  if (!options.statistics.empty() && std::filesystem::exists(options.statistics)) {
    collector.load(options.statistics);
    context.console.say(fmt::format("{}: continues after {} files", options.statistics, collector.files().size()));
  }
  for (const std::string& file : options.merged) collector.merge(file);
  const std::vector<std::string> files = new_files(options, collector);
  const std::uint64_t total = bytes_of_files(files);
  std::uint64_t before = 0;
  Saver saver(collector, options.statistics);
  for (const std::string& file : files) {
    const auto show = [&](std::uint64_t bytes) {
      constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;
      context.console.progress((before + bytes) / kMebi, total / kMebi + 1, "MiB, " + file);
    };
    collector.add_file(file, show);
    before += std::filesystem::file_size(file);
    saver.file_added();
  }
  context.console.status("");
  saver.save();
}

/// A layer that some batches lack is used, and named on standard error.
void say_missing(const calibrate::Collector& collector, Context& context) {
  for (const calibrate::NamedStatistics& one : collector.layers()) {
    const std::uint64_t batches = one.statistics.batches();
    if (batches < collector.files().size())
      context.console.say(fmt::format("layer {}: is in {} of {} files", one.layer, batches, collector.files().size()));
  }
}

/// The layers that have a range. A layer without a token is named on standard error.
std::vector<const calibrate::NamedStatistics*> layers_with_values(const calibrate::Collector& collector,
                                                                  Context& context) {
  std::vector<const calibrate::NamedStatistics*> filled;
  for (const calibrate::NamedStatistics& one : collector.layers()) {
    if (one.statistics.count() + one.statistics.non_finite() > 0)
      filled.push_back(&one);
    else
      context.console.say(fmt::format("layer {}: has no values and is left out", one.layer));
  }
  if (filled.empty()) throw BadInput("the activations", "have no values", "give files whose tensors have tokens");
  return filled;
}

void write_outputs(const CalibrateOptions& options, const std::vector<LayerReport>& reports,
                   const calibrate::RangeChoice& choice, std::size_t files) {
  const nlohmann::ordered_json json = report_json(reports, choice, files);
  // Pictures and report are complete in temporary files before the first output appears.
  std::optional<PictureFolder> pictures;
  if (!options.pictures.empty()) pictures.emplace(options.pictures);
  for (const LayerReport& one : reports)
    if (pictures) pictures->write(one.layer, histogram_picture(one));
  std::optional<OutputFile> report;
  if (!options.report.empty()) report.emplace(options.report);
  const std::string text = json_text(json) + "\n";
  if (report) report->append(std::as_bytes(std::span(text)));
  if (!options.output.empty()) {  // may refuse a scale
    std::vector<calibrate::LayerRange> ranges;
    for (const LayerReport& one : reports) ranges.push_back({one.layer, choice, one.range(choice.method)});
    calibrate::write_scales(options.output, ranges);
  }
  if (report) report->finish();
  if (pictures) pictures->publish();
  options.json ? print_json(json) : fmt::print("{}", report_table(reports, choice));
}

/// minmax alone needs no histogram, so it reads files faster. Other methods may follow from kept statistics, and
/// pictures show the histogram.
calibrate::Collect collect_of(const CalibrateOptions& options, const calibrate::RangeChoice& choice) {
  const bool has_all = choice.method != calibrate::Method::minmax || !options.statistics.empty() ||
                       !options.merged.empty() || !options.pictures.empty();
  return {.histogram = has_all, .moments = has_all};
}

int run_calibrate(const CalibrateOptions& options, Context& context) {
  if (!options.activations && options.merged.empty() && options.statistics.empty())
    throw BadInput("the command line", "names no activations", "give a folder of activations, --merge or --statistics");
  const calibrate::RangeChoice choice = {calibrate::parse_method(options.method),
                                         calibrate::parse_format(options.format), options.percentile};
  check_outputs(options);
  std::optional<FileLock> lock;  // from reading the statistics to saving them
  if (!options.statistics.empty()) lock.emplace("--statistics", options.statistics);
  calibrate::Collector collector(collect_of(options, choice), options.threads, options.layers);
  collect(options, collector, context);
  say_missing(collector, context);
  const auto layers = collector.layers();
  if (layers.empty())
    throw BadInput("the activations", "have no layers", "give files with tensors, and --layers that match");
  const std::vector<const calibrate::NamedStatistics*> filled = layers_with_values(collector, context);
  std::vector<LayerReport> reports(filled.size());
  parallel_for(static_cast<std::int64_t>(filled.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    reports[at] = make_report(*filled[at], choice);
  });
  write_outputs(options, reports, choice, collector.files().size());
  return kExitGood;
}

}  // namespace

void add_calibrate(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("calibrate", kHelp);
  auto options = std::make_shared<CalibrateOptions>();
  command->add_option("activations", options->activations, "A folder of safetensors files, or one file");
  command->add_option("--method", options->method, "minmax, percentile, entropy or mse (default: mse)");
  command->add_option("--format", options->format, "int8, int8_asymmetric or e4m3 (default: int8)");
  command->add_option("--percentile", options->percentile, "Values that percentile keeps, in percent (default: 99.99)");
  command->add_option("--layers", options->layers, "Only layers that match this pattern with * and ? (may be repeated)")
      ->allow_extra_args(false);
  command->add_option("--statistics", options->statistics, "Keep the statistics in this file, and continue from it");
  command->add_option("--merge", options->merged, "Add the statistics of another run's --statistics (may be repeated)")
      ->allow_extra_args(false);
  command->add_option("--output", options->output, "Write the scales to this safetensors file");
  command->add_option("--report", options->report, "Write a JSON report to this file");
  command->add_option("--pictures", options->pictures, "Write a histogram of each layer to this folder, as SVG");
  command->add_option("--threads", options->threads, "Threads that read and count (default: all processors)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", options->json, "Print the JSON report instead of the table");
  command->footer(kExamples);
  command->final_callback(
      [options, &context] { context.action = [options, &context] { return run_calibrate(*options, context); }; });
}

}  // namespace cubit::tools
