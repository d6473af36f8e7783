// Which case to compute: a descriptor, and tensors from a file or made up. For run and bench.
#pragma once

#include <cubit/cubit.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cubit::tools {

struct ProblemOptions {
  std::string descriptor;
  std::optional<std::string> input;
  std::optional<std::string> weights;  ///< a checkpoint, of which `layer` names a part
  std::optional<std::string> layer;    ///< none: the checkpoint's tensors are those of one, and named so
  std::optional<std::string> random;
  std::vector<std::string> numbers;  ///< of --set
  std::optional<std::string> device;
  std::optional<std::string> architectures;

  /// `usual_device` says where the case runs that names no device.
  void add_to(CLI::App& command, const char* usual_device);
  /// Throws BadInput or cubit::Error.
  Problem make() const;
  /// Throws BadInput where `output`, which `option` ("--output") gave, is a file that the case is made from; `scores`
  /// are those of --score.
  void require_another_file(const std::string& option, const std::string& output,
                            const std::vector<std::string>& scores) const;
  /// Those of all --set together. Throws BadInput.
  std::vector<std::pair<std::string, double>> join_numbers() const;
};

/// {name: {type, shape}} of the inputs: the sizes of the case.
nlohmann::ordered_json describe_tensors(const std::vector<cubit_tensor>& tensors);

/// The device that --device names ("cpu": the CPU device for --arch), or the first GPU; nothing, and why, where none is
/// named and there is none.
struct ChosenDevice {
  std::optional<Device> device;
  nlohmann::json facts;
  std::string trouble;
};
ChosenDevice choose_device(const ProblemOptions& options);
/// "cpu", or that of an architecture, as "cpu:sm_80".
bool means_cpu(const std::optional<std::string>& device);
/// The CPU device for --arch, or for sm_80, whose kernels every later family runs; nothing where cubit was installed
/// without it or --arch names several.
ChosenDevice choose_cpu_device(const ProblemOptions& options);

/// What to ask an engine for, to run on `device`: the architecture of --arch, else the device's; "cpu:sm_80" for the
/// CPU device of that name.
std::string run_architecture(const ProblemOptions& options, const nlohmann::json& device);
/// The same without --arch.
std::string kernel_target(const nlohmann::json& device);

}  // namespace cubit::tools
