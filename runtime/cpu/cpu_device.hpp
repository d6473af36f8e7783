// The CPU device: a Device that executes the PTX of any architecture on the host processor.
//
// The executor is in libcubit_cpu, which contains LLVM. libcubit opens libcubit_cpu when a program first opens a CPU
// device or lists devices. Other programs neither load nor ship LLVM.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/device.hpp"

namespace cubit::runtime {

inline constexpr std::string_view kCpuPrefix = "cpu:";  ///< prefix of the device's name: "cpu:sm_80"

/// Why there is no CPU device ("libcubit_cpu.so is neither in the folder of libcubit …"), or "". Never throws.
std::string cpu_trouble();

/// Facts of the CPU device for `architecture`. The number of multiprocessors is fixed, so that a launch has the same
/// grid and splits on every machine.
DeviceFacts cpu_device_facts(const codegen::Architecture& architecture);

/// Opens a CPU device. Memory of the device is host memory. Calls return when their work is done, and captured launches
/// run at replay. Throws Failure(driver_unavailable) without libcubit_cpu, and Failure(invalid_argument) for an unknown
/// architecture.
std::shared_ptr<Device> open_cpu_device(std::string_view architecture);

}  // namespace cubit::runtime
