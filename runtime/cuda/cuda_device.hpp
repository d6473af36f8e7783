// CUDA devices as Device objects. The driver API is opened at run time through cuGetProcAddress.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.hpp"

namespace cubit::runtime {

/// The driver's major version (13 for 13.0), or 0 without a driver. Never throws.
int cuda_driver_major();

/// Why no CUDA device can be used ("libcuda.so.1 is not on this machine"), or "" if one can.
std::string cuda_trouble();

/// Number of CUDA devices; 0 without a driver.
int cuda_device_count();

/// Facts of a device, without creating a context. Throws Failure(driver_unavailable) without a driver, and
/// Failure(invalid_argument) if there is no device `ordinal`.
DeviceFacts cuda_device_facts(int ordinal);

/// Opens a device through its primary context, which is retained while the object lives. Does not change the current
/// context.
std::shared_ptr<Device> open_cuda_device(int ordinal);

/// Returns the Device of the context that is current on this thread. The same context always gives the same object;
/// after a thread's first call the look-up takes no lock. Throws Failure(driver_unavailable) without a driver and
/// Failure(invalid_argument) if no context is current. Never creates or switches a context.
Device& current_cuda_device();

}  // namespace cubit::runtime
