// MemoryMap: the global memory that a kernel may access.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cubit::runtime::cpu {

/// Ranges of host addresses in ascending order.
class MemoryMap {
 public:
  struct Range {
    std::uint64_t first;
    std::uint64_t last;               ///< first address after the range
    std::uint8_t* written = nullptr;  ///< 1 for each byte that has a value; nullptr: all bytes have values
  };

  MemoryMap() = default;
  explicit MemoryMap(std::vector<Range> ranges) : ranges_(std::move(ranges)) {
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  }

  /// Returns the range that contains all of these bytes, or nullptr.
  const Range* find(std::uint64_t address, std::uint64_t bytes) const {
    const Range* const range = below(address);
    return range != nullptr && address < range->last && range->last - address >= bytes ? range : nullptr;
  }
  /// Returns the last range that begins at or before `address`, or nullptr.
  const Range* below(std::uint64_t address) const {
    const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                        [](std::uint64_t value, const Range& range) { return value < range.first; });
    return after == ranges_.begin() ? nullptr : &*(after - 1);
  }

 private:
  std::vector<Range> ranges_;
};

}  // namespace cubit::runtime::cpu
