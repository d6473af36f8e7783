// What this machine has left.
#pragma once

#include <cstddef>
#include <fstream>
#include <limits>
#include <string>

namespace cubit {

/// Bytes that a process can still write to without others having to go: Linux promises more, and ends who uses it. The
/// largest number where the system does not say.
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
