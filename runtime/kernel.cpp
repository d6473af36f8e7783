// Loads a kernel's code once per device, and never during a stream capture.
#include "runtime/kernel.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

Failure not_for(const Artifact& artifact, const DeviceFacts& device) {
  return {Status::unsupported, artifact.descriptor,
          fmt::format("{} for {} does not run on {}, which is {}", artifact.code == codegen::Code::ptx ? "PTX" : "code",
                      artifact.target, device.name, device.architecture->name),
          "get the kernel for " + target_for(device)};
}

/// A driver compiles PTX of toolkits up to its own version.
std::optional<Failure> trouble_with_ptx(const Artifact& artifact, const DeviceFacts& device) {
  if (!codegen::ptx_runs_on(codegen::find_architecture(artifact.target), device.capability))
    return not_for(artifact, device);
  const CompilerVersion& compiler = artifact.compiler;
  if (1000 * compiler.major + 10 * compiler.minor <= device.driver_version) return std::nullopt;
  return Failure(
      Status::unsupported, artifact.descriptor,
      fmt::format("the driver of {} compiles PTX of CUDA {}.{} and older, and NVRTC {} made this PTX", device.name,
                  device.driver_version / 1000, device.driver_version % 1000 / 10, compiler.text()),
      "install a newer driver, or compile with an older NVRTC");
}

Failure not_resident(const Artifact& artifact, const DeviceFacts& device) {
  return {Status::not_resident, artifact.descriptor,
          fmt::format("the kernel is not loaded on {}, and the stream is being captured", device.name),
          "prepare the kernel before the capture begins"};
}

}  // namespace

std::string target_for(const DeviceFacts& device) {
  return fmt::format("{}{}", device.code == codegen::Code::ptx ? "cpu:" : "", device.architecture->name);
}

std::optional<Failure> trouble_on(const Artifact& artifact, const DeviceFacts& device) {
  const bool is_gpu = device.capability != 0;
  if (is_gpu && artifact.code == codegen::Code::ptx) return trouble_with_ptx(artifact, device);
  if (artifact.code != device.code) {
    return Failure(Status::unsupported, artifact.descriptor,
                   is_gpu ? fmt::format("{}, which cubit does not know, runs no cubin", device.name)
                          : fmt::format("a cubin runs on a GPU, and not on {}", device.name),
                   "get the kernel for " + (is_gpu ? target_for(device) : "cpu:" + artifact.target));
  }
  if (codegen::runs_on(codegen::find_architecture(artifact.target), *device.architecture)) return std::nullopt;
  return not_for(artifact, device);
}

Kernel::Kernel(Artifact artifact, codegen::LaunchFacts launch) : artifact_(std::move(artifact)), launch_(launch) {}

const LoadedKernel& Kernel::prepare(Device& device) {
  if (const LoadedKernel* ready = find(device)) return *ready;
  const std::lock_guard lock(loading_);
  if (const LoadedKernel* ready = find(device)) return *ready;
  if (const auto trouble = trouble_on(artifact_, device.facts())) throw Failure(*trouble);
  Residency& residency = residencies_[static_cast<std::size_t>(device.slot())];
  residency.owner = device.load(artifact_, launch_);
  residency.code.store(residency.owner.get(), std::memory_order_relaxed);
  residency.tenant.store(device.generation() + 1, std::memory_order_release);
  return *residency.owner;
}

void Kernel::launch(Device& device, const LaunchShape& shape, std::span<const std::byte> parameters, Stream stream) {
  const LoadedKernel* code = find(device);
  if (code == nullptr) {
    if (device.capturing(stream)) throw not_resident(artifact_, device.facts());
    code = &prepare(device);
  }
  device.launch(*code, shape, parameters, stream);
}

}  // namespace cubit::runtime
