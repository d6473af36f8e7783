// Defines the opaque handle types of cubit.h.
#pragma once

#include <cubit/cubit.h>

#include <memory>
#include <optional>
#include <string>

#include "capi/border.hpp"
#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "ops/session.hpp"
#include "runtime/cpu/cpu_device.hpp"
#include "runtime/cuda/cuda_device.hpp"

struct cubit_device {
  std::string name;  ///< "cuda:0" or "cpu:sm_80"
  std::shared_ptr<cubit::runtime::Device> device;
};

struct cubit_graph {
  std::shared_ptr<cubit::runtime::Device> device;  ///< keeps the device's context alive
  std::unique_ptr<cubit::runtime::Graph> graph;
};

struct cubit_engine {
  cubit::ops::Session session;
};

namespace cubit::capi {

// A cubit_kernel is an ops::OperatorKernel, which counts its references. The opaque type itself is never defined.
inline cubit_kernel* to_handle(ops::KernelHandle kernel) {
  return reinterpret_cast<cubit_kernel*>(const_cast<ops::OperatorKernel*>(kernel.detach()));
}
inline const ops::OperatorKernel& from_handle(const cubit_kernel* kernel, const char* parameter) {
  require(kernel, parameter);
  return *reinterpret_cast<const ops::OperatorKernel*>(kernel);
}

/// The target of a request: an architecture and the kind of code.
struct CodeTarget {
  const codegen::Architecture& architecture;
  codegen::Code code;
};

/// Parses "sm_80", or "cpu:sm_80" for the CPU device. NULL stands for the device of the current CUDA context.
CodeTarget target_of(const char* given);

/// The device of a call. The device of a handle is made current during the call. Without a handle, the current
/// context's device is used and the context is left unchanged.
class Target {
 public:
  explicit Target(cubit_device* handle)
      : device_(handle == nullptr ? runtime::current_cuda_device() : *handle->device) {
    if (handle != nullptr) scope_.emplace(device_);
  }
  runtime::Device& device() const { return device_; }

 private:
  runtime::Device& device_;
  std::optional<runtime::CurrentDevice> scope_;
};

/// The facts of a device as JSON, for cubit_devices and cubit_device_describe.
Json device_json(const std::string& name, const runtime::DeviceFacts& facts);

/// A number that ptxas reports, or null for PTX, which ptxas never processed.
inline Json ptxas_json(const runtime::Artifact& artifact, std::int64_t number) {
  return artifact.code == codegen::Code::ptx ? Json(nullptr) : Json(number);
}

}  // namespace cubit::capi
