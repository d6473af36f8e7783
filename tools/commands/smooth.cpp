// cubit smooth: folds the factors of SmoothQuant into a checkpoint. Only the weights of one layer are in memory at a
// time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cubit/smooth.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "files/output_file.hpp"
#include "files/output_folder.hpp"
#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "files/text/quote.hpp"
#include "tools/calibrate/smooth_report.hpp"
#include "tools/checkpoint/reader.hpp"
#include "tools/checkpoint/smoothing_mapping.hpp"
#include "tools/new_checkpoint/whole_folder.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

namespace fs = std::filesystem;
using calibrate::Mapping;

constexpr const char* kHelp =
    R"(Moves the range of outlier channels from the inputs of layers to their weights (SmoothQuant): each norm is divided
by a factor per channel, and the layers that read the norm are multiplied by the factor. The network computes the same
function, and INT8 loses less. Tensors keep their types. The table shows the output error of INT8 on a sample: the
squared error relative to the mean square of the outputs.)";

constexpr const char* kExamples = R"(
Examples:
  cubit smooth model --activations activations --output smoothed
  cubit smooth model --activations activations --alpha 0.8 --output smoothed --pictures pictures
  cubit smooth model --activations activations --mapping mapping.json --output smoothed
      a model that has no built-in mapping of norms to layers; docs/calibration.md describes the file

Exit code: 0 success; 1 the output could not be written; 2 bad input.)";

constexpr std::uint64_t kPartBytes = std::uint64_t{16} << 20;  ///< tensors are copied in parts of this size

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

class Smoother {
 public:
  Smoother(const SmoothOptions& options, Console& console)
      : options_(options),
        console_(console),
        alpha_(given_alpha(options.alpha)),
        checkpoint_(options.checkpoint),
        mapping_(smoothing_mapping(checkpoint_, options.mapping, options.architecture)) {
    std::vector<calibrate::TensorName> names;
    for (const auto& file : checkpoint_.files()) {
      for (const HeaderEntry& tensor : file->tensors()) {
        tensors_.emplace(tensor.name, &tensor);
        names.push_back({tensor.name, tensor.shape.size()});
        bytes_ += bytes_of(tensor);
      }
    }
    plan_ = mapping_.plan(names);
    report_.not_smoothed = plan_.not_smoothed;
  }

  const SmoothReport& report() const { return report_; }

  /// Chooses the factors of all groups.
  void choose() {
    const std::vector<std::string> files = calibrate::activation_files(options_.activations);
    const calibrate::Collector collector = collected(files);
    for (std::size_t i = 0; i < plan_.groups.size(); ++i) {
      console_.progress(i, plan_.groups.size(), "norms, " + plan_.groups[i].norm);
      const calibrate::NamedStatistics* inputs = recorded(collector, plan_.groups[i]);
      if (inputs != nullptr) {
        named(plan_.groups[i], [&] { choose_one(plan_.groups[i], *inputs, files); });
        continue;
      }
      for (const std::string& layer : plan_.groups[i].layers)
        report_.not_smoothed.push_back({layer, "its activations were not recorded"});
    }
    console_.status("");
  }

  void write(WholeFolder& folder) {
    std::map<std::string, std::string> names;
    for (const auto& file : checkpoint_.files()) {
      const std::string name = fs::path(file->path()).filename().string();
      for (const HeaderEntry& tensor : file->tensors()) names.emplace(tensor.name, name);
      write_one(*file, folder.file(name));
    }
    console_.status("");
    copy_texts(folder_of(checkpoint_), folder);
    if (checkpoint_.has_index())
      OutputFile(folder.file(fs::path(checkpoint_.path()).filename().string()))
          .commit_text(checkpoint_.index_of(names, bytes_));
    folder.publish();
  }

 private:
  calibrate::Collector collected(const std::vector<std::string>& files) {
    std::vector<std::string> layers;
    for (const calibrate::SmoothGroup& group : plan_.groups)
      layers.insert(layers.end(), group.layers.begin(), group.layers.end());
    calibrate::Collector collector({.histogram = false, .moments = false}, 0, layers);
    if (layers.empty()) return collector;
    for (const std::string& file : files) collector.check_file(file);
    for (std::size_t i = 0; i < files.size(); ++i) {
      console_.progress(i, files.size(), "files, " + files[i]);
      collector.add_file(files[i]);
    }
    console_.status("");
    return collector;
  }
  /// The inputs of a group's first layer that has some. All layers of a group have the same inputs.
  static const calibrate::NamedStatistics* recorded(const calibrate::Collector& collector,
                                                    const calibrate::SmoothGroup& group) {
    for (const std::string& layer : group.layers)
      for (const calibrate::NamedStatistics& one : collector.layers())
        if (one.layer == layer && one.statistics.tokens() > 0) return &one;
    return nullptr;
  }
  template <class Work>
  static void named(const calibrate::SmoothGroup& group, Work work) {
    try {
      work();
    } catch (const Error& error) {
      throw BadInput(fmt::format("norm {}, {}", group.norm, error.given()), error.why(), error.remedy());
    }
  }
  std::vector<std::byte> bytes_of_tensor(const HeaderEntry& tensor) const {
    std::vector<std::byte> bytes(bytes_of(tensor));
    checkpoint_.read(tensor, 0, bytes);
    return bytes;
  }

  void choose_one(const calibrate::SmoothGroup& group, const calibrate::NamedStatistics& inputs,
                  const std::vector<std::string>& files) {
    if (inputs.statistics.non_finite() > 0)
      throw BadInput(fmt::format("layer {}, {} values", inputs.layer, inputs.statistics.non_finite()), "are not finite",
                     "record activations again without NaNs and infinities");
    calibrate::SmoothSearch search(inputs.statistics.channel_magnitudes(),
                                   calibrate::sample_tokens(files, inputs.layer));
    for (const std::string& layer : group.layers) {
      const HeaderEntry& weight = *tensors_.at(layer + ".weight");
      search.add_layer({weight.type, weight.shape, bytes_of_tensor(weight)}, mapping_.input_first());
    }
    calibrate::Smoothing made = alpha_ ? search.with_alpha(*alpha_) : search.search();
    fold_group(group, made.factors);
    report_.groups.push_back({group,
                              std::move(made),
                              {search.inputs().begin(), search.inputs().end()},
                              {search.weights().begin(), search.weights().end()}});
  }
  /// Folds the norm in memory, and keeps the factors for the layers' weights.
  void fold_group(const calibrate::SmoothGroup& group, std::vector<float>& factors) {
    const HeaderEntry& weight = *tensors_.at(group.norm + ".weight");
    std::vector<std::byte>& weight_bytes = norms_[weight.name] = bytes_of_tensor(weight);
    const auto bias = tensors_.find(group.norm + ".bias");
    std::vector<std::byte> bias_bytes;
    if (bias != tensors_.end()) bias_bytes = bytes_of_tensor(*bias->second);
    calibrate::fold_norm({weight.type, weight_bytes},
                         {bias == tensors_.end() ? weight.type : bias->second->type, bias_bytes},
                         mapping_.norm_adds_one(), factors);
    if (bias != tensors_.end()) norms_[bias->first] = std::move(bias_bytes);
    const auto shared = std::make_shared<const std::vector<float>>(factors);
    for (const std::string& layer : group.layers) factors_[layer + ".weight"] = {shared, layer};
  }

  void write_one(const SafetensorsReader& file, const std::string& path) {
    OutputFile output(path);
    const std::string header = format_header(file.tensors(), file.metadata());
    output.append(std::as_bytes(std::span(header)));
    for (const HeaderEntry& tensor : file.tensors()) write_tensor(tensor, output);
    output.finish();
  }
  void write_tensor(const HeaderEntry& tensor, OutputFile& output) {
    if (const auto norm = norms_.find(tensor.name); norm != norms_.end()) return output.append(norm->second);
    const auto factors = factors_.find(tensor.name);
    const std::uint64_t all = bytes_of(tensor);
    std::uint64_t elements = 1;
    for (const std::int64_t size : tensor.shape) elements *= static_cast<std::uint64_t>(size);
    std::vector<std::byte> part;
    for (std::uint64_t begin = 0; begin < all; begin += part.size()) {
      part.resize(static_cast<std::size_t>(std::min(kPartBytes, all - begin)));
      checkpoint_.read(tensor, begin, part);
      if (factors != factors_.end())
        named({factors->second.layer, {}}, [&] {
          calibrate::fold_weight({tensor.type, part}, begin / (all / elements),
                                 static_cast<std::uint64_t>(tensor.shape[1]), mapping_.input_first(),
                                 *factors->second.factors);
        });
      output.append(part);
      written_ += part.size();
      constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;
      console_.progress(written_ / kMebi, bytes_ / kMebi + 1, "MiB, " + tensor.name);
    }
  }
  struct LayerFactors {
    std::shared_ptr<const std::vector<float>> factors;
    std::string layer;
  };

  const SmoothOptions& options_;
  Console& console_;
  std::optional<double> alpha_;
  CheckpointReader checkpoint_;
  Mapping mapping_;
  std::map<std::string, const HeaderEntry*> tensors_;
  calibrate::SmoothPlan plan_;
  std::map<std::string, std::vector<std::byte>> norms_;  ///< folded tensors of norms
  std::map<std::string, LayerFactors> factors_;          ///< by the weight's name
  SmoothReport report_;
  std::uint64_t bytes_ = 0;
  std::uint64_t written_ = 0;
};

int run_smooth(const SmoothOptions& options, Context& context) {
  Smoother smoother(options, context.console);
  WholeFolder folder(options.output, "--output", "");
  smoother.choose();
  smoother.write(folder);
  const SmoothReport& report = smoother.report();
  const nlohmann::ordered_json json = smooth_json(report);
  if (!options.pictures.empty()) {
    make_folder(options.pictures, "--pictures");
    for (const SmoothedGroup& one : report.groups) {
      std::string name = one.group.norm;
      std::replace(name.begin(), name.end(), '/', '_');
      write_file(options.pictures, name + ".svg", channels_picture(one));
    }
  }
  if (!options.report.empty()) OutputFile(options.report).commit_text(json_text(json) + "\n");
  options.json ? print_json(json) : fmt::print("{}", smooth_table(report));
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
