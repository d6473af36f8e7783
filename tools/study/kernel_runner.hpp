// Runs cubit's kernels on host data, for the studies of accuracy.
#pragma once

#include <cubit/check.hpp>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tools/kernels/device_case.hpp"
#include "tools/options/context.hpp"
#include "tools/options/problem_options.hpp"

namespace cubit::tools {

/// A tensor in host memory. `data` outlives the call that takes the tensor.
struct HostTensor {
  const char* name;
  const char* type;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

/// The device that --device names, else the first GPU, else the CPU device.
class KernelRunner {
 public:
  /// Throws WorkFailed if there is no device.
  KernelRunner(const ProblemOptions& options, Context& context);

  /// The outputs of one launch, in the order of the operator's outputs.
  HostTensors run(const std::string& descriptor, std::initializer_list<HostTensor> inputs,
                  const Numbers& numbers = {}) const;
  HostTensors run(const std::string& descriptor, const Problem& problem) const;
  const nlohmann::json& facts() const { return chosen_.facts; }  ///< the JSON of Device::describe
  const std::string& architecture() const { return architecture_; }
  const std::string& compiler() const { return compiler_; }  ///< of the kernel that ran last
  const Device& device() const { return *chosen_.device; }
  const Engine& engine() const { return engine_; }
  bool is_gpu() const { return !means_cpu(chosen_.facts.at("name").get<std::string>()); }

 private:
  ChosenDevice chosen_;
  std::string architecture_;
  Engine engine_;
  OwnedStream stream_;
  mutable std::string compiler_;
};

/// A problem that copies the tensors.
Problem problem_of(const std::string& descriptor, std::span<const HostTensor> inputs, const Numbers& numbers);

/// Device, driver, compiler, architecture, version and commit, for the JSON of a study whose kernels have run.
nlohmann::ordered_json origin_json(const KernelRunner& runner);

}  // namespace cubit::tools
