// A cache of encoded launches of one thread: an inference engine repeats the launches of its layers at every step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

#include "ops/launch/recent_table.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

/// The key of the cache: everything that an encoded launch depends on.
struct LaunchRequest {
  std::uint64_t kernel = 0;  ///< OperatorKernel::id
  std::uint64_t device = 0;  ///< Device::identity()
  const void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  std::span<const std::byte> arguments;  ///< the public argument struct, Specialisation::repeatable_bytes() long

  std::uint64_t hash() const {
    return hash_of({kernel, device, reinterpret_cast<std::uintptr_t>(workspace), workspace_bytes}, arguments);
  }
  bool operator==(const LaunchRequest& other) const {
    return kernel == other.kernel && device == other.device && workspace == other.workspace &&
           workspace_bytes == other.workspace_bytes && arguments.size() == other.arguments.size() &&
           std::memcmp(arguments.data(), other.arguments.data(), arguments.size()) == 0;
  }
};

/// Holds 512 launches: one step of a large model has a few hundred, and hash collisions need some room. A launch is
/// stored when its request comes for the second time within about a thousand new requests. Requests that change at
/// every step, for example because max_length grows, therefore neither evict repeated launches nor touch the memory of
/// the large table. Each thread has its own table (of_this_thread), so that no lock is needed. A full table takes 1 MB;
/// pages that a thread does not use take no memory.
class RecentLaunches {
 public:
  /// The stored launch of a request that is equal byte for byte, with its tensor maps encoded, or else the launch that
  /// make() returns. The reference is valid until the next call.
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
      auto* const entry = new (at) Entry{request, {}, make()};  // constructed in place, without a copy
      std::memcpy(entry->arguments.data(), request.arguments.data(), request.arguments.size());
      entry->request.arguments = {entry->arguments.data(), request.arguments.size()};
      return entry;
    });
    return made.launch;
  }

 private:
  struct Entry {
    LaunchRequest request;  ///< request.arguments refers to the member `arguments` below
    std::array<std::byte, kMostRepeatableBytes> arguments;
    Launch launch;
  };
  struct Seen {};
  static_assert(std::is_trivially_copyable_v<Launch>);

  RecentTable<Entry, 128, 4> table_;
  RecentTable<Seen, 128, 8> seen_;                              ///< hashes of requests that came once
  alignas(Launch) std::array<std::byte, sizeof(Launch)> once_;  ///< the last launch that was made without being stored
};

}  // namespace cubit::ops
