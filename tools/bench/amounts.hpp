// Amounts of a benchmark: copies of a case's inputs, launches of a graph, and bytes of a case's floor.
#pragma once

#include <cstddef>
#include <string_view>

namespace cubit::tools {

inline constexpr std::string_view kReads = "stream_read";
inline constexpr std::string_view kCopies = "stream_copy";
inline constexpr std::size_t kPastL2 =
    4;  ///< Copies exceed the L2 cache if they have at least this many times its size.

/// Number of copies of a case's inputs, which the launches use in rotation. The copies together have 16 times the size
/// of the L2 cache, so that the cache has lost a copy before the copy is read again. `bytes` are read from each copy.
/// At most 64 copies; they take at most a quarter of the device's memory (`case_bytes` each).
int rotation(std::size_t bytes, std::size_t case_bytes, std::size_t l2_bytes, std::size_t memory_bytes);

/// Bytes of the one allocation that holds the cases of a run: 64 times the L2 cache, at most a quarter of the device's
/// memory. On an H200 every case of the benchmark tables fits; a larger case makes the allocation grow.
std::size_t arena_bytes(std::size_t l2_bytes, std::size_t memory_bytes);

/// How often a graph visits all copies, so that the graph takes about 800 us. `microseconds` is the time of one visit
/// to all copies.
int rounds_of_graph(double microseconds);

/// The floor of a kernel: a plain read of the bytes that the kernel must read. If the kernel writes at least a fifth of
/// the bytes it reads, the floor is a plain copy that moves as many bytes as the kernel reads and writes together.
struct FloorKind {
  std::string_view kernel;  ///< "stream_read" or "stream_copy"
  std::size_t bytes = 0;    ///< bytes that the floor kernel moves
};
FloorKind floor_kind(std::size_t bytes_read, std::size_t bytes_written);

}  // namespace cubit::tools
