#include "tools/options/problem_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "files/output_file.hpp"
#include "files/safetensors/safetensors.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/checkpoint/config.hpp"
#include "tools/checkpoint/evidence.hpp"
#include "tools/checkpoint/layer.hpp"
#include "tools/checkpoint/parallel_slice.hpp"
#include "tools/checkpoint/permuted_activations.hpp"
#include "tools/kernels/catalogue.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/case_layers.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

cubit_tensor to_c(const TensorView& view) {
  cubit_tensor tensor{};
  tensor.name = view.name.c_str();
  tensor.type = view.type.c_str();
  tensor.rank = static_cast<int>(view.shape.size());
  std::copy(view.shape.begin(), view.shape.end(), tensor.shape);
  tensor.data =
      const_cast<std::byte*>(view.data.data());  // the C struct serves inputs and outputs; inputs are only read
  return tensor;
}

void append(std::vector<cubit_tensor>& inputs, const std::vector<TensorView>& views) {
  for (const TensorView& view : views) {
    for (const cubit_tensor& other : inputs) {
      if (view.name != other.name) continue;
      throw BadInput("tensor " + view.name, "is both in --input and in the layer of --weights", kOneWanted);
    }
    inputs.push_back(to_c(view));
  }
}

nlohmann::json operator_of(const std::string& descriptor) {
  const std::string name = descriptor.substr(0, descriptor.find(':'));
  for (const auto& entry : operator_catalogue())
    if (entry.at("name") == name) return entry;
  return {{"decompositions", nlohmann::json::array()}, {"fields", nlohmann::json::array()}};
}

/// Replaces "decomposition=split_k" by its number. Other texts stay unchanged. Throws BadInput for an unknown name.
std::string with_number(const std::string& part, const std::string& descriptor) {
  const std::string number = part.substr(0, part.find('='));
  if (number.size() + 1 >= part.size()) return part;
  const std::string given = part.substr(number.size() + 1);
  std::vector<std::string> names;
  const nlohmann::json entry = operator_of(descriptor);
  for (const auto& one : entry.at("decompositions")) {
    if (!one.at("numbers").contains(number)) continue;
    // Some decompositions need fields that this descriptor does not have.
    if (descriptor.find(one.at("fields").get<std::string>()) == std::string::npos) continue;
    names.push_back(one.at("name").get<std::string>());
    if (given == names.back()) return fmt::format("{}={}", number, one.at("numbers").at(number).get<double>());
  }
  const bool is_word = std::isalpha(static_cast<unsigned char>(given.front())) != 0 || given.front() == '_';
  if (names.empty() || !is_word) return part;
  throw BadInput(fmt::format("--set {}", part), fmt::format("no decomposition has the name {}", quote(given)),
                 fmt::format("accepted: {}, or a number", fmt::join(names, ", ")));
}

/// Refuses a bias that the descriptor does not add: without the bias the result would differ from the checkpoint's
/// layer. The message says how to add the bias.
[[noreturn]] void refuse_bias(const std::string& descriptor, const std::string& layer, const Error& error) {
  throw BadInput("tensor " + (layer.empty() ? "" : layer + ".") + "bias", fmt::format("{} adds no bias", descriptor),
                 has_field(descriptor, "bias") ? "add bias=true to the descriptor" : error.remedy());
}

/// Adds to the error about the number of groups which group size the checkpoint states. Does nothing for other errors.
void refuse_group_size(const std::vector<W4Config>& configs, const Error& error) {
  if (!error.given().starts_with("tensor scales") || error.given().find(" [") == std::string::npos) return;
  for (const W4Config& config : configs) {
    if (!config.group_size) continue;
    throw BadInput(error.given(),
                   fmt::format("{}, and {} says group_size={}", error.why(), config.file, *config.group_size),
                   error.remedy());
  }
}

/// The k of the activations, by which a layer is cut.
std::int64_t k_of_activations(const std::vector<TensorView>& tensors) {
  for (const TensorView& tensor : tensors)
    if (tensor.name == "activations" && tensor.shape.size() == 2) return tensor.shape[1];
  throw BadInput("--tensor-parallel", "the activations say along which dimension a layer is cut",
                 "give activations [m, k] with --input");
}

[[noreturn]] void refuse_weights_alone() {
  throw BadInput("--weights", "a checkpoint has no activations", "give the activations with --input");
}

/// `given`: the descriptor as the user gave it, with the number of layers. `usual`: its canonical text.
Case case_from_files(const std::string& given, const std::string& usual, const ProblemOptions& options,
                     const Numbers& numbers, Console& console) {
  std::optional<SafetensorsFile> file;
  if (options.input) file.emplace(*options.input);
  std::optional<CaseLayers> layers;
  if (options.weights) layers.emplace(*options.weights, options.layers, usual);
  std::vector<TensorView> of_file = file ? file->tensors() : std::vector<TensorView>{};
  std::optional<PermutedActivations> permuted;
  if (const auto permutation = layers ? layers->take_permutation() : std::nullopt) {
    permuted.emplace(of_file, *permutation);
    of_file = permuted->tensors();
  }
  if (options.tensor_parallel) layers->cut(usual, k_of_activations(of_file), parse_rank(*options.tensor_parallel));
  const std::vector<TensorView> of_layers = layers ? layers->tensors() : std::vector<TensorView>{};
  std::vector<cubit_tensor> inputs;
  append(inputs, of_file);
  append(inputs, of_layers);
  const std::vector<W4Config> configs =
      options.weights ? read_quantisation_configs(*options.weights) : std::vector<W4Config>{};
  const std::string descriptor = Problem::fit_descriptor(given, inputs, numbers);
  try {
    Case made = {descriptor, Problem(descriptor, inputs, numbers)};
    if (descriptor != usual)
      console.say(fmt::format("{} has the alignment of the given tensors: {}", usual, descriptor));
    const std::string warning = contradictions_of_case(descriptor, inputs, configs, permuted.has_value());
    if (!warning.empty()) console.say(warning);
    return made;
  } catch (const Error& error) {
    constexpr std::string_view kTensor = "tensor ";
    const std::string_view tensor =
        std::string_view(error.given()).substr(std::min(kTensor.size(), error.given().size()));
    if (const CaseLayer* const layer = layers ? layers->layer_of_bias(tensor) : nullptr)
      refuse_bias(descriptor, layer->name(), error);
    if (layers && !file && error.given() == "tensors without activations") refuse_weights_alone();
    refuse_group_size(configs, error);
    throw;
  }
}

Problem random_problem(const std::string& descriptor, const std::string& text, const Numbers& numbers) {
  const RandomCase random = parse_random(text, "--random");
  Numbers all = random.sizes;
  all.insert(all.end(), numbers.begin(), numbers.end());
  try {
    return Problem::random(descriptor, all, random.seed);
  } catch (const Error& error) {
    for (const auto& [name, value] : random.sizes)
      if (error.given() == "size " + name) throw BadInput(error.given(), error.why(), error.remedy() + ", seed");
    throw;
  }
}

}  // namespace

Numbers ProblemOptions::join_numbers() const {
  std::string all;
  for (const std::string& some : numbers)
    for (const std::string& part : split_list(some, "--set"))
      all += (all.empty() ? "" : ",") + with_number(part, descriptor);
  return numbers.empty() ? Numbers{} : parse_numbers(all, "--set");
}

void ProblemOptions::add_to(CLI::App& command, const char* usual_device) {
  command.add_option("DESCRIPTOR", descriptor, "operator:field=value,...")->required();
  command.add_option("--input", input, "A safetensors file with the operator's input tensors, by name");
  command.add_option(
      "--weights", weights,
      "A checkpoint with the input tensors of one layer: a safetensors file, the index of several files (*.json), "
      "or the folder");
  command
      .add_option(
          "--layer", layers,
          "The layer of --weights: model.layers.0.mlp.down_proj; leave it out if the tensors' names have no layer. "
          "Give "
          "it two or three times for layers that one launch of w4a16_gemm multiplies: q_proj, k_proj and v_proj, or "
          "with function=silu_gate gate_proj and up_proj")
      ->allow_extra_args(false);
  command.add_option("--tensor-parallel", tensor_parallel,
                     "Cut the layer of --weights for one rank: RANK/SIZE, such as 0/4. Activations of all of k cut "
                     "output features, activations of a rank's k cut input features");
  command.add_option("--random", random, "Use made-up data: batch=2,context=512,kv_heads=1,seed=7");
  command.add_option("--set", numbers, "A number of the launch: softmax_scale=0.1, or decomposition=split_k by name")
      ->allow_extra_args(false);
  command.add_option("--device", device, fmt::format("Where to run: cuda:0, …, or cpu (default: {})", usual_device));
  command.add_option("--arch", architectures, "The architecture to compile for (default: the device's architecture)");
}

void ProblemOptions::require_another_file(const std::string& option, const std::string& output,
                                          const std::vector<std::string>& scores) const {
  std::vector<std::string> files = weights ? checkpoint_files(*weights) : std::vector<std::string>{};
  if (input) files.push_back(*input);
  for (const std::string& score : scores) files.push_back(score.substr(score.find('=') + 1));
  for (const std::string& file : files) tools::require_another_file(option, output, file);
}

Case ProblemOptions::make(Console& console) const {
  require_descriptor_length(descriptor, "");
  const std::string given = with_layers(descriptor, layers.size());
  const std::string text = canonical(given);  // a mistake in the descriptor is reported before a mistake in a file
  if (input && random) throw BadInput("--input and --random", "exclude each other", kOneWanted);
  if (!layers.empty() && !weights) {
    throw BadInput("--layer", "names a layer of a checkpoint, but no checkpoint is given",
                   "give --weights model.safetensors --layer model.layers.0.mlp.down_proj");
  }
  if (tensor_parallel && !weights)
    throw BadInput("--tensor-parallel", "cuts a layer of a checkpoint, but no checkpoint is given", "give --weights");
  if (weights && random)
    throw BadInput("--weights and --random", "exclude each other",
                   "give the tensors that the checkpoint does not have with --input");
  if (!input && !random && !weights) {
    throw BadInput(
        "no data", "a case needs tensors",
        "give --input case.safetensors, --weights of a checkpoint, or --random NAME=NUMBER,...; cubit operators lists "
        "the names");
  }
  const Numbers launch_numbers = join_numbers();
  if (random) return {text, random_problem(text, *random, launch_numbers)};
  return case_from_files(given, text, *this, launch_numbers, console);
}

nlohmann::ordered_json describe_tensors(const std::vector<cubit_tensor>& tensors) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const cubit_tensor& tensor : tensors) {
    json[tensor.name] = {{"type", tensor.type},
                         {"shape", std::vector<std::int64_t>(tensor.shape, tensor.shape + tensor.rank)}};
  }
  return json;
}

namespace {

constexpr std::string_view kCpu = "cpu";
constexpr std::string_view kCpuPrefix = "cpu:";
constexpr const char* kUsualCpuArchitecture = "sm_80";

ChosenDevice open_device(const std::string& name) {
  Device device(name);
  nlohmann::json facts = nlohmann::json::parse(device.describe());
  return {std::move(device), std::move(facts), {}};
}

std::string one_architecture(const std::string& text) {
  const auto names = parse_architectures(text);
  if (names.size() == 1) return names.front();
  throw BadInput("--arch " + text, "a kernel that runs has one architecture",
                 "leave --arch out, or use cubit compile for several");
}

std::string cpu_name(const ProblemOptions& options) {
  const std::string architecture =
      options.architectures ? one_architecture(*options.architectures) : kUsualCpuArchitecture;
  return std::string(kCpuPrefix) + architecture;
}

}  // namespace

ChosenDevice choose_cpu_device(const ProblemOptions& options) {
  if (options.architectures && parse_architectures(*options.architectures).size() != 1) return {};
  try {
    return open_device(cpu_name(options));
  } catch (const Error& error) {
    if (error.code() != CUBIT_DRIVER_UNAVAILABLE) throw;
    return {{}, {}, error.what()};
  }
}

bool means_cpu(const std::optional<std::string>& device) {
  return device && (*device == kCpu || device->starts_with(kCpuPrefix));
}

ChosenDevice choose_device(const ProblemOptions& options) {
  std::string name;
  if (options.device == kCpu) {
    name = cpu_name(options);
  } else if (options.device) {
    name = *options.device;
  } else {
    const Devices devices = find_devices();
    if (devices.list.empty()) return {{}, {}, devices.trouble};
    name = devices.list.front().at("name");
  }
  return open_device(name);
}

std::string kernel_target(const nlohmann::json& device) { return device.at("target").get<std::string>(); }

std::string run_architecture(const ProblemOptions& options, const nlohmann::json& device) {
  if (!options.architectures) return kernel_target(device);
  const bool is_cpu = device.at("name").get<std::string>().starts_with(kCpuPrefix);
  return (is_cpu ? std::string(kCpuPrefix) : "") + one_architecture(*options.architectures);
}

}  // namespace cubit::tools
