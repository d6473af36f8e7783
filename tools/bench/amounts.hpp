// How much a benchmark measures: copies of a case's inputs, launches of a graph, and the bytes of its floor.
#pragma once

#include <cstddef>
#include <string_view>

namespace cubit::tools {

inline constexpr std::string_view kReads = "stream_read";
inline constexpr std::string_view kCopies = "stream_copy";
inline constexpr std::size_t kPastL2 = 4;  ///< copies that count as past the L2 are so many times its size

/// Copies of a case of `bytes` so that by the time one is read again the L2 cache has forgotten it: together 16 times
/// its size, within a quarter of the device's memory (`case_bytes` each) and at most 64.
int rotation(std::size_t bytes, std::size_t case_bytes, std::size_t l2_bytes, std::size_t memory_bytes);

/// Of the one allocation that the cases of a run lie in, unless one takes more: 64 times the L2 cache, which on an H200
/// is more than any case of the tables takes, within a quarter of the device's memory.
std::size_t arena_bytes(std::size_t l2_bytes, std::size_t memory_bytes);

/// How often a graph goes round the copies, of which once takes so long: so that it takes about 800 us.
int rounds_of_graph(double microseconds);

/// What a kernel's floor is: a plain read of what it must read, or, where it must write at least a fifth as much, a
/// plain copy that moves as many bytes as it reads and writes together.
struct FloorKind {
  std::string_view kernel;  ///< "stream_read" or "stream_copy"
  std::size_t bytes = 0;    ///< that it moves
};
FloorKind floor_kind(std::size_t bytes_read, std::size_t bytes_written);

}  // namespace cubit::tools
