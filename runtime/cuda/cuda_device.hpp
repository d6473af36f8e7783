// CUDA as a Device: the driver API, opened at run time through cuGetProcAddress.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.hpp"

namespace cubit::runtime {

/// The driver's major version (13 for 13.0), or 0 where there is no driver. Never throws.
int cuda_driver_major();

/// Why no CUDA device can be used ("libcuda.so.1 is not on this machine"), or empty.
std::string cuda_trouble();

/// Number of CUDA devices; 0 where there is no driver.
int cuda_device_count();

/// Facts of a device without making a context. Throws Failure(driver_unavailable) or (invalid_argument) for a bad
/// ordinal.
DeviceFacts cuda_device_facts(int ordinal);

/// Opens a device by its primary context, which is retained while the object lives. Makes nothing current.
std::shared_ptr<Device> open_cuda_device(int ordinal);

/// The device object of the context that is current on this thread: the same object for the same context every time,
/// found without a lock after the first time on a thread. Throws Failure(driver_unavailable) without a driver and
/// Failure(invalid_argument) where no context is current. Does not make or switch contexts.
Device& current_cuda_device();

}  // namespace cubit::runtime
