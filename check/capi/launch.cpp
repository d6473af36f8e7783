// Implements the description of a launch. The operators' plans are pure, so this library encodes the launch itself,
// from the facts that libcubit states about the kernel and the device. No device memory is needed.
#include "check/capi/launch.hpp"

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "codegen/architecture.hpp"
#include "ops/argument_checks.hpp"

namespace cubit::check {
namespace {

/// Rethrows the error of a function of libcubit.
void require_ok(cubit_status status) {
  if (status == CUBIT_OK) return;
  const cubit_error& error = *cubit_last_error();
  throw Failure(static_cast<Status>(error.status), error.what, error.why, error.remedy);
}

Json device_json(cubit_device* device) {
  const char* text = nullptr;
  require_ok(cubit_device_describe(device, &text));
  return Json::parse(text);
}

runtime::DeviceFacts facts_of(const Json& device) {
  runtime::DeviceFacts facts;
  facts.name = device.at("description");
  facts.architecture = &codegen::find_architecture(device.at("architecture").get<std::string>());
  facts.multiprocessors = device.at("multiprocessors");
  facts.memory_bytes = device.at("memory_bytes");
  facts.l2_bytes = device.at("l2_bytes");
  facts.memory_bytes_per_second = device.at("memory_bytes_per_second");
  return facts;
}

/// The kernel that the launch takes; of a set the chosen member.
Json kernel_json(cubit_kernel* kernel, const void* arguments, cubit_device* device) {
  const char* text = nullptr;
  require_ok(cubit_kernel_describe(kernel, &text));
  Json json = Json::parse(text);
  if (!json.contains("members")) return json;
  std::size_t index = 0;
  require_ok(cubit_kernel_choose(kernel, arguments, device, &index));
  return json.at("members").at(index);
}

/// Distinct addresses for tensors that no device holds. A launch checks their alignment alone.
std::vector<void*> made_up_addresses(std::size_t count) {
  constexpr std::uintptr_t kApart = std::uintptr_t{1} << 40;
  std::vector<void*> addresses;
  for (std::size_t i = 1; i <= count; ++i)
    addresses.push_back(reinterpret_cast<void*>(i * kApart));  // NOLINT(performance-no-int-to-ptr)
  return addresses;
}

/// Adds blocks_per_sm and occupancy, which are null if the kernel's registers are not known.
void add_residency(Json& json, const Json& kernel, const runtime::LaunchShape& shape,
                   const codegen::Architecture& architecture) {
  json["blocks_per_sm"] = json["occupancy"] = nullptr;
  if (kernel.at("registers").is_null()) return;
  const int shared = kernel.at("static_shared_memory").get<int>() + static_cast<int>(shape.dynamic_shared_memory);
  const int threads = static_cast<int>(shape.threads);
  const int blocks = codegen::resident_blocks(architecture, threads, kernel.at("registers").get<int>(), shared);
  constexpr int kWarp = 32;
  const int warps = (threads + kWarp - 1) / kWarp;
  json["blocks_per_sm"] = blocks;
  json["occupancy"] = static_cast<double>(blocks * warps * kWarp) / architecture.threads_per_sm;
}

}  // namespace

Json describe_launch(const Problem& problem, cubit_kernel* kernel, cubit_device* device) {
  const Json described = device_json(device);
  const runtime::DeviceFacts facts = facts_of(described);
  const std::vector<std::byte> arguments =
      problem.arguments(made_up_addresses(problem.inputs().size() + problem.outputs().size()));
  const Json chosen = kernel_json(kernel, arguments.data(), device);
  const std::string descriptor = chosen.at("descriptor");
  const auto specialisation = find_operator(descriptor).specialise(descriptor, *facts.architecture);
  const std::size_t workspace = specialisation->workspace_bytes(arguments.data(), facts);
  const Launch launch = specialisation->encode(arguments.data(), made_up_addresses(1).front(), workspace, facts);
  const runtime::LaunchShape& shape = launch.shape;
  const auto& grid = shape.grid;
  Json json = {{"descriptor", descriptor},
               {"grid", launch.empty ? Json{0, 0, 0} : Json(grid)},
               {"blocks", launch.empty ? std::uint64_t{0} : std::uint64_t{grid[0]} * grid[1] * grid[2]},
               {"cluster_blocks", shape.cluster_blocks},
               {"threads", shape.threads},
               {"dynamic_shared_memory", shape.dynamic_shared_memory},
               {"workspace_bytes", workspace}};
  add_residency(json, chosen, shape, *facts.architecture);
  return json;
}

}  // namespace cubit::check
