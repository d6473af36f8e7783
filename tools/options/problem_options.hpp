// Options that name the case to compute: a descriptor, and tensors from a file or made up. Used by run and bench.
#pragma once

#include <cubit/check.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cubit::tools {

class Console;

/// The case that options name.
struct Case {
  std::string descriptor;  ///< canonical; if the option leaves alignment out, the alignment is that of given tensors
  Problem problem;
};

struct ProblemOptions {
  std::string descriptor;
  std::optional<std::string> input;
  std::optional<std::string> weights;          ///< a checkpoint that holds the tensors of `layers`
  std::vector<std::string> layers;             ///< none: the checkpoint's tensors belong to one layer without a name
  std::optional<std::string> tensor_parallel;  ///< RANK/SIZE: the layer is cut for this rank
  std::optional<std::string> random;
  std::vector<std::string> numbers;  ///< values of --set
  std::optional<std::string> device;
  std::optional<std::string> architectures;

  /// Adds the options to `command`. `usual_device` describes the device of a case without --device.
  void add_to(CLI::App& command, const char* usual_device);
  /// Makes the case, and says on the console which alignment follows from given tensors if it is not the usual one.
  /// Throws BadInput or cubit::Error.
  Case make(Console& console) const;
  /// Throws BadInput if `output`, the value of `option` ("--output"), is one of the case's input files. `scores` are
  /// the values of --score.
  void require_another_file(const std::string& option, const std::string& output,
                            const std::vector<std::string>& scores) const;
  /// The numbers of all --set options together. Throws BadInput.
  std::vector<std::pair<std::string, double>> join_numbers() const;
};

/// {name: {type, shape}} of the tensors; the shapes of the inputs show the sizes of the case.
nlohmann::ordered_json describe_tensors(const std::vector<cubit_tensor>& tensors);

/// The device that --device names, or the first GPU. "cpu" names the CPU device for --arch. Without --device and GPU,
/// `device` is empty and `trouble` says why.
struct ChosenDevice {
  std::optional<Device> device;
  nlohmann::json facts;
  std::string trouble;
};
ChosenDevice choose_device(const ProblemOptions& options);
/// Whether the name is "cpu" or the CPU device of an architecture, such as "cpu:sm_80".
bool means_cpu(const std::optional<std::string>& device);
/// The CPU device for --arch. The default is sm_80, whose kernels every later architecture runs. `device` is empty if
/// cubit was installed without the CPU device or --arch names several architectures.
ChosenDevice choose_cpu_device(const ProblemOptions& options);

/// The architecture to request from an engine for a run on `device`: the value of --arch, else the device's
/// architecture. For the CPU device, "cpu:sm_80" for example.
std::string run_architecture(const ProblemOptions& options, const nlohmann::json& device);
/// The same for a run without --arch.
std::string kernel_target(const nlohmann::json& device);

}  // namespace cubit::tools
