// The amount of main memory that is available on this machine.
#pragma once

#include <cstddef>
#include <fstream>
#include <limits>
#include <string>

namespace cubit {

/// Bytes that a process can still write without swapping. Linux lets a process allocate more memory than exists, and
/// kills the process that touches it. Returns the largest size_t if the system does not report the number.
inline std::size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::size_t kilobytes = 0;
  std::string unit;
  while (file >> name >> kilobytes) {
    if (name == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace cubit
