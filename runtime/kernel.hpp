// A compiled kernel in this process: immutable code, and its loaded form on each device that has used it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "codegen/kernel_source.hpp"
#include "runtime/cache/artifact.hpp"
#include "runtime/device.hpp"

namespace cubit::runtime {

inline constexpr int kMaxDevices = 64;    ///< live CUDA contexts per process: slots 0 …
inline constexpr int kMaxCpuDevices = 8;  ///< live CPU devices: the slots after those

/// Shared by everybody who asked for it; outlives its engine.
class Kernel {
 public:
  Kernel(Artifact artifact, codegen::LaunchFacts launch);

  const Artifact& artifact() const { return artifact_; }
  const codegen::LaunchFacts& launch_facts() const { return launch_; }

  /// Loads the code on `device`, whose context must be current, if it is not there yet. Thread-safe; loads once.
  /// Throws Failure(unsupported) if the code is for another architecture than the device's, or of the other kind.
  const LoadedKernel& prepare(Device& device);
  bool resident(const Device& device) const { return find(device) != nullptr; }

  /// Stream-ordered, allocation-free once resident. Loads on first use, except while `stream` is being captured: then
  /// throws Failure(not_resident) and leaves the capture as it was. Throws as prepare does.
  void launch(Device& device, const LaunchShape& shape, std::span<const std::byte> parameters, Stream stream);

 private:
  /// What one slot's device has loaded. `tenant` is the device's generation + 1, written after `code`: a later device
  /// in the same slot sees another tenant and never touches `code`, which then belongs to a dead context.
  struct Residency {
    std::atomic<std::uint64_t> tenant{0};
    std::atomic<const LoadedKernel*> code{nullptr};
    std::unique_ptr<LoadedKernel> owner;  ///< guarded by loading_
  };

  const LoadedKernel* find(const Device& device) const noexcept {
    const Residency& residency = residencies_[static_cast<std::size_t>(device.slot())];
    if (residency.tenant.load(std::memory_order_acquire) != device.generation() + 1) return nullptr;
    return residency.code.load(std::memory_order_relaxed);
  }

  Artifact artifact_;
  codegen::LaunchFacts launch_;
  std::mutex loading_;
  std::array<Residency, kMaxDevices + kMaxCpuDevices> residencies_;
};

}  // namespace cubit::runtime
