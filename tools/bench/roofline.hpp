// A roofline: arithmetic against memory, measured kernels below the limits of their device.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cubit::tools {

/// Entries as Benchmark::measure gives them, with a "name" that labels the point where there is one; those without
/// measurements are left out. Operations per byte to the right, operations per second upwards, both in powers of ten.
/// The slope is the best read floor of the entries, the level what the tensor cores can do at the device's highest
/// clock, where that is known; each point has a stem up to the read floor of its own bytes.
std::string roofline_picture(const nlohmann::ordered_json& entries);

}  // namespace cubit::tools
