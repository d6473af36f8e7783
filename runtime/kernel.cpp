// Loads a kernel's code once per device, and never during a stream capture.
#include "runtime/kernel.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

void check_architecture(const Artifact& artifact, const DeviceFacts& device) {
  if (artifact.code != device.code) {
    const bool is_ptx = artifact.code == codegen::Code::ptx;
    throw Failure(Status::unsupported, artifact.descriptor,
                  fmt::format("{} runs on {}, and not on {}", is_ptx ? "PTX" : "a cubin",
                              is_ptx ? "the CPU device" : "a GPU", device.name),
                  fmt::format("get the kernel for {}{}", is_ptx ? "" : "cpu:", artifact.target));
  }
  const codegen::Architecture& code = codegen::find_architecture(artifact.target);
  if (device.architecture == nullptr || codegen::runs_on(code, *device.architecture)) return;
  throw Failure(Status::unsupported, artifact.descriptor,
                fmt::format("code for {} does not run on {}, which is {}", artifact.target, device.name,
                            device.architecture->name),
                fmt::format("get the kernel for {}{}", artifact.code == codegen::Code::ptx ? "cpu:" : "",
                            device.architecture->name));
}

Failure not_resident(const Artifact& artifact, const DeviceFacts& device) {
  return {Status::not_resident, artifact.descriptor,
          fmt::format("the kernel is not loaded on {}, and the stream is being captured", device.name),
          "prepare the kernel before the capture begins"};
}

}  // namespace

Kernel::Kernel(Artifact artifact, codegen::LaunchFacts launch) : artifact_(std::move(artifact)), launch_(launch) {}

const LoadedKernel& Kernel::prepare(Device& device) {
  if (const LoadedKernel* ready = find(device)) return *ready;
  const std::lock_guard lock(loading_);
  if (const LoadedKernel* ready = find(device)) return *ready;
  check_architecture(artifact_, device.facts());
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
