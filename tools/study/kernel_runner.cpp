#include "tools/study/kernel_runner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cubit_commit.hpp"
#include "files/text/error.hpp"

namespace cubit::tools {
namespace {

ChosenDevice choose_any_device(const ProblemOptions& options) {
  ChosenDevice chosen = choose_device(options);
  if (!chosen.device) chosen = choose_cpu_device(options);
  if (!chosen.device)
    throw WorkFailed("no device", chosen.trouble, "a study of accuracy needs a GPU or the CPU device");
  return chosen;
}

cubit_tensor to_c(const HostTensor& tensor) {
  cubit_tensor made{};
  made.name = tensor.name;
  made.type = tensor.type;
  made.rank = static_cast<int>(tensor.shape.size());
  std::copy(tensor.shape.begin(), tensor.shape.end(), made.shape);
  made.data = const_cast<std::byte*>(tensor.data.data());  // the C struct serves inputs and outputs; inputs are read
  return made;
}

}  // namespace

KernelRunner::KernelRunner(const ProblemOptions& options, Context& context)
    : chosen_(choose_any_device(options)),
      architecture_(run_architecture(options, chosen_.facts)),
      engine_(context.engine()),
      stream_(*chosen_.device) {}

HostTensors KernelRunner::run(const std::string& descriptor, std::initializer_list<HostTensor> inputs,
                              const Numbers& numbers) const {
  return run(descriptor, problem_of(descriptor, inputs, numbers));
}

HostTensors KernelRunner::run(const std::string& descriptor, const Problem& problem) const {
  const Kernel kernel = engine_.get(descriptor, architecture_);
  DeviceCase on_device(device(), problem, 1, stream_);
  on_device.allocate_workspace(kernel);
  kernel.prepare(device());
  compiler_ = nlohmann::json::parse(kernel.member(0).describe()).at("compiler").get<std::string>();
  on_device.launch(kernel, 0);
  return on_device.download_outputs();
}

Problem problem_of(const std::string& descriptor, std::span<const HostTensor> inputs, const Numbers& numbers) {
  std::vector<cubit_tensor> tensors;
  for (const HostTensor& input : inputs) tensors.push_back(to_c(input));
  return {descriptor, tensors, numbers};
}

nlohmann::ordered_json origin_json(const KernelRunner& runner) {
  return {{"device", runner.facts().at("description")},
          {"driver", runner.facts().at("driver_version")},
          {"compiler", runner.compiler()},
          {"arch", runner.architecture()},
          {"cubit", fmt::format("{}.{}.{}", CUBIT_VERSION_MAJOR, CUBIT_VERSION_MINOR, CUBIT_VERSION_PATCH)},
          {"commit", kCommit}};
}

}  // namespace cubit::tools
