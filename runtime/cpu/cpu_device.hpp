// The CPU as a Device: executes the PTX of any architecture. The executor is libcubit_cpu, opened at first need, so
// that a program which neither opens this device nor lists devices does not load LLVM, and none must ship it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/device.hpp"

namespace cubit::runtime {

inline constexpr std::string_view kCpuPrefix = "cpu:";  ///< of the device's name: "cpu:sm_80"

/// Why there is no CPU device ("libcubit_cpu.so is not beside libcubit"), or empty. Never throws.
std::string cpu_trouble();

/// Facts of the device that executes the code of `architecture`. Multiprocessors are a fixed number, so that a launch's
/// grid and splits are the same on every machine.
DeviceFacts cpu_device_facts(const codegen::Architecture& architecture);

/// Throws Failure(driver_unavailable) without libcubit_cpu, Failure(invalid_argument) for an architecture cubit does
/// not know. Memory is host memory. Calls return when their work is done; what is captured runs at replay.
std::shared_ptr<Device> open_cpu_device(std::string_view architecture);

}  // namespace cubit::runtime
