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

namespace cubit::ops {

/// What a launch is a function of: nothing else may change it.
struct LaunchRequest {
  std::uint64_t kernel = 0;  ///< OperatorKernel::id
  std::uint64_t device = 0;  ///< Device::identity()
  const void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  std::span<const std::byte> arguments;  ///< the public struct: Specialisation::repeatable_bytes()
};

/// The launches of a step of a large model, a few hundred, with room for what falls into the same place. A thread's
/// own, so there is no lock; 1 MB of a thread that launches so many, and what it uses of one that launches few.
class RecentLaunches {
 public:
  static RecentLaunches& of_this_thread();

  /// The launch of a request that is equal byte for byte, its tensor maps encoded. Where there is none, what make()
  /// returns, remembered. Where its place is full another goes, which one is up to the request: of steps that come
  /// again some of a place stay, where the one used least recently would always be the next.
  template <class Make>
  const Launch& find_or_make(const LaunchRequest& request, const Make& make) {
    const std::uint64_t hash = hash_of(request);
    const std::size_t place = hash / 2 % kPlaces;
    if (const Launch* const known = find(request, hash, place); known != nullptr) return *known;
    const std::size_t way = vacate(hash, place);
    // Made where it stays; where make() throws the way is left vacant.
    auto* const entry = new (entry_at(place, way)) Entry{request, {}, make()};
    std::memcpy(entry->arguments.data(), request.arguments.data(), request.arguments.size());
    entry->request.arguments = {entry->arguments.data(), request.arguments.size()};
    places_[place][way] = hash;
    return entry->launch;
  }

 private:
  static constexpr std::size_t kPlaces = 128;
  static constexpr std::size_t kWays = 4;
  struct Entry {
    LaunchRequest request;  ///< its arguments are the entry's
    std::array<std::byte, kMostRepeatableBytes> arguments;
    Launch launch;
  };
  using Place = std::array<std::uint64_t, kWays>;  ///< hashes; 0: no entry
  static_assert(std::is_trivially_copyable_v<Launch> && std::is_trivially_destructible_v<Entry>);

  std::array<Place, kPlaces> places_{};
  // Without a constructor's run, so that a page is the process's only once it is used.
  alignas(Entry) std::array<std::byte, kPlaces * kWays * sizeof(Entry)> entries_;

  static std::uint64_t hash_of(const LaunchRequest& request);
  const Launch* find(const LaunchRequest& request, std::uint64_t hash, std::size_t place);
  /// Of the place's ways one that has no entry, or no longer has.
  std::size_t vacate(std::uint64_t hash, std::size_t place);
  std::byte* entry_at(std::size_t place, std::size_t way) {
    return entries_.data() + (place * kWays + way) * sizeof(Entry);
  }
};

}  // namespace cubit::ops
