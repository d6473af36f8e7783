// Draws a roofline: the operations per second of measured kernels below the limits of their device.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cubit::tools {

/// Draws entries of Benchmark::measure; entries without measurements are left out. "name", where an entry has one,
/// labels the point. The x axis shows operations per byte, the y axis operations per second, both logarithmic. The
/// sloped line is the fastest read floor of the entries. The level line is the peak of the tensor cores at the device's
/// highest clock, if the peak is known. A stem connects each point with the read floor of the point's own bytes.
std::string roofline_picture(const nlohmann::ordered_json& entries);

}  // namespace cubit::tools
