#include "tools/bench/amounts.hpp"

#include <algorithm>
#include <cmath>

namespace cubit::tools {
namespace {

/// Target time of a graph. The start of a graph takes about 4.5 us. In a longer graph, a kernel that keeps the tensor
/// cores busy makes the device lower its clock.
constexpr double kGraphMicroseconds = 800;
/// Bytes that rotate, in multiples of the L2 cache. With an eviction policy that discards some lines first, the L2
/// keeps other lines: four times the L2 size still gives some hits.
constexpr std::size_t kRotationPerL2 = 16;
constexpr std::size_t kMostCopies = 64;
constexpr std::size_t kPartOfMemory = 4;

constexpr std::size_t kWritesThatCount = 5;  ///< 1 / 5 of the bytes read

}  // namespace

int rotation(std::size_t bytes, std::size_t case_bytes, std::size_t l2_bytes, std::size_t memory_bytes) {
  const std::size_t wanted = (kRotationPerL2 * l2_bytes + bytes) / std::max<std::size_t>(bytes, 1);
  const std::size_t room = memory_bytes / kPartOfMemory / std::max<std::size_t>(case_bytes, 1);
  return static_cast<int>(std::max<std::size_t>(1, std::min({wanted, room, kMostCopies})));
}

std::size_t arena_bytes(std::size_t l2_bytes, std::size_t memory_bytes) {
  return std::min(4 * kRotationPerL2 * l2_bytes, memory_bytes / kPartOfMemory);
}

int rounds_of_graph(double microseconds) {
  constexpr double kMost = 64;
  return static_cast<int>(std::clamp(std::round(kGraphMicroseconds / std::max(microseconds, 1.0)), 1.0, kMost));
}

FloorKind floor_kind(std::size_t bytes_read, std::size_t bytes_written) {
  if (kWritesThatCount * bytes_written < bytes_read) return {kReads, bytes_read};
  return {kCopies, bytes_read + bytes_written};
}

}  // namespace cubit::tools
