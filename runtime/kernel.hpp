// Kernel: a compiled kernel in this process, with its loaded form on each device that has used it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "codegen/kernel_source.hpp"
#include "runtime/cache/artifact.hpp"
#include "runtime/device.hpp"

namespace cubit::runtime {

inline constexpr int kMaxDevices = 64;    ///< live CUDA contexts per process: the first slots
inline constexpr int kMaxCpuDevices = 8;  ///< live CPU devices per process: the slots after those of CUDA contexts

/// What to request for a device: "sm_90a" for a cubin, "cpu:sm_90a" for PTX.
std::string target_for(const DeviceFacts& device);

/// Why the code does not run on the device, or nothing if it does. A GPU runs cubins, and PTX that its driver compiles
/// when the code is loaded. A CPU device runs PTX.
std::optional<Failure> trouble_on(const Artifact& artifact, const DeviceFacts& device);

/// Compiled code and its residency on devices. All requests for the same kernel share one object. A Kernel may outlive
/// its engine.
class Kernel {
 public:
  Kernel(Artifact artifact, codegen::LaunchFacts launch);

  const Artifact& artifact() const { return artifact_; }
  const codegen::LaunchFacts& launch_facts() const { return launch_; }

  /// Loads the code on `device`, whose context must be current, unless the code is loaded already. Thread-safe. Throws
  /// the Failure(unsupported) of trouble_on().
  const LoadedKernel& prepare(Device& device);
  bool resident(const Device& device) const { return find(device) != nullptr; }

  /// Launches the kernel in the order of `stream`. A launch of a resident kernel allocates nothing. The first launch on
  /// a device loads the code. While `stream` is being captured a first launch throws Failure(not_resident) and leaves
  /// the capture intact. Throws what prepare() throws.
  void launch(Device& device, const LaunchShape& shape, std::span<const std::byte> parameters, Stream stream);

 private:
  /// The code that is loaded for the device in one slot. `tenant` is the device's generation + 1 and is written after
  /// `code`. A later device in the same slot sees a different tenant and ignores `code`, which belongs to a dead
  /// context.
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
