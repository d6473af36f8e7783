// Launches that a thread has made, ready to be made again: an engine repeats those of its layers step after step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

#include "ops/operator.hpp"
#include "ops/recent_table.hpp"

namespace cubit::ops {

/// What a launch is a function of: nothing else may change it.
struct LaunchRequest {
  std::uint64_t kernel = 0;  ///< OperatorKernel::id
  std::uint64_t device = 0;  ///< Device::identity()
  const void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  std::span<const std::byte> arguments;  ///< the public struct: Specialisation::repeatable_bytes()

  std::uint64_t hash() const {
    return hash_of({kernel, device, reinterpret_cast<std::uintptr_t>(workspace), workspace_bytes}, arguments);
  }
  bool operator==(const LaunchRequest& other) const {
    return kernel == other.kernel && device == other.device && workspace == other.workspace &&
           workspace_bytes == other.workspace_bytes && arguments.size() == other.arguments.size() &&
           std::memcmp(arguments.data(), other.arguments.data(), arguments.size()) == 0;
  }
};

/// The launches of a step of a large model, a few hundred, with room for what falls into the same place. A launch is
/// remembered when it comes for the second time, among a thousand others that are new: those that change with every
/// step, as where max_length grows, neither take the place of those that stay nor cost a walk over the table. A
/// thread's own (of_this_thread), so there is no lock; 1 MB of a thread that repeats so many, and what it uses of one
/// that repeats few.
class RecentLaunches {
 public:
  /// The launch of a request that is equal byte for byte, its tensor maps encoded. Where there is none, what make()
  /// returns; it stays until the next call, or is remembered.
  template <class Make>
  const Launch& find_or_make(const LaunchRequest& request, const Make& make) {
    const std::uint64_t hash = request.hash();
    const Entry* const known = table_.find(hash, [&](const Entry& entry) { return entry.request == request; });
    if (known != nullptr) return known->launch;
    if (seen_.find(hash, [](const Seen&) { return true; }) == nullptr) {
      const Launch& made = *new (once_.data()) Launch(make());
      seen_.add(hash, [](std::byte* at) { return new (at) Seen; });
      return made;
    }
    const Entry& made = table_.add(hash, [&](std::byte* at) {
      auto* const entry = new (at) Entry{request, {}, make()};  // made where it stays
      std::memcpy(entry->arguments.data(), request.arguments.data(), request.arguments.size());
      entry->request.arguments = {entry->arguments.data(), request.arguments.size()};
      return entry;
    });
    return made.launch;
  }

 private:
  struct Entry {
    LaunchRequest request;  ///< its arguments are the entry's
    std::array<std::byte, kMostRepeatableBytes> arguments;
    Launch launch;
  };
  struct Seen {};
  static_assert(std::is_trivially_copyable_v<Launch>);

  RecentTable<Entry, 128, 4> table_;
  RecentTable<Seen, 128, 8> seen_;  ///< once, by their hashes alone
  alignas(Launch) std::array<std::byte, sizeof(Launch)> once_;
};

}  // namespace cubit::ops
