// Allocations: the memory of a CPU device, and which of its bytes have a value.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "runtime/cpu/interface.h"

namespace cubit::runtime::cpu {

/// 1 for each byte that has a value. Launches on several threads may read and write the array at the same time.
using WrittenBytes = std::vector<std::uint8_t>;

/// The memory of a device, by address. For memory allocated while memory is watched, the class records which bytes have
/// a value.
class Allocations {
 public:
  /// The memory that a launch sees. The snapshot stays valid during the launch, even if memory is released or watching
  /// is turned off.
  struct Snapshot {
    std::vector<CubitCpuRange> ranges;
    std::vector<std::shared_ptr<WrittenBytes>> written;
  };

  void watch(bool on) {
    const std::lock_guard lock(mutex_);
    watches_ = on;
    if (on) return;
    for (auto& [first, entry] : entries_) entry.written.reset();  // later launches do not update the marks
  }
  void add(void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    entries_[address(memory)] = {bytes, watches_ ? std::make_shared<WrittenBytes>(bytes) : nullptr};
  }
  /// Returns false if there is no allocation at this address.
  bool remove(void* memory) {
    const std::lock_guard lock(mutex_);
    return entries_.erase(address(memory)) != 0;
  }
  /// Throws Failure(invalid_argument) unless one allocation contains all of these bytes; `bytes` is not 0.
  void require(const void* memory, std::size_t bytes) const {
    const std::lock_guard lock(mutex_);
    const auto after = entries_.upper_bound(address(memory));
    const std::uint64_t end = after == entries_.begin() ? 0 : std::prev(after)->first + std::prev(after)->second.bytes;
    if (end <= address(memory)) {
      throw Failure(Status::invalid_argument, fmt::format("memory at {:#x}", address(memory)),
                    "this is not memory of this CPU device, or it was freed before",
                    "give memory from this device's cubit_device_allocate");
    }
    if (end - address(memory) < bytes) {
      throw Failure(
          Status::invalid_argument, fmt::format("{} bytes at {:#x}", bytes, address(memory)),
          fmt::format("the allocation of this CPU device has {} bytes from this address on", end - address(memory)),
          "give fewer bytes, or allocate more memory");
    }
  }
  /// Marks bytes that the host has written.
  void mark(void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto entry = entries_.upper_bound(address(memory));
    if (entry == entries_.begin() || !(--entry)->second.written) return;
    WrittenBytes& written = *entry->second.written;
    const std::size_t first = std::min<std::size_t>(address(memory) - entry->first, written.size());
    const std::size_t last = first + std::min(bytes, written.size() - first);
    for (std::size_t i = first; i < last; ++i) std::atomic_ref(written[i]).store(1, std::memory_order_relaxed);
  }
  Snapshot snapshot() {
    const std::lock_guard lock(mutex_);
    Snapshot seen;
    for (auto& [first, entry] : entries_) {
      seen.ranges.push_back({first, first + entry.bytes, entry.written ? entry.written->data() : nullptr});
      seen.written.push_back(entry.written);
    }
    return seen;
  }

 private:
  struct Entry {
    std::size_t bytes = 0;
    std::shared_ptr<WrittenBytes> written;  ///< nullptr: not watched
  };
  static std::uint64_t address(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

  mutable std::mutex mutex_;
  bool watches_ = false;
  std::map<std::uint64_t, Entry> entries_;
};

}  // namespace cubit::runtime::cpu
