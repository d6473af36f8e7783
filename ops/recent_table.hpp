// What a thread has made lately, by a hash of what it was made of: a few hundred entries of a few bytes' or kilobytes'
// size, found without a lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

namespace cubit::ops {

/// Of bytes in whole words, behind four numbers; never 0. By four chains, which the processor follows side by side.
std::uint64_t hash_of(const std::array<std::uint64_t, 4>& numbers, std::span<const std::byte> bytes);

/// Entries in places, of which each has a few ways. Where its place is full another goes, which one is up to the hash:
/// of steps that come again some of a place stay, where the one used least recently would always be the next.
template <class Entry, std::size_t Places, std::size_t Ways>
class RecentTable {
 public:
  /// The entry of this hash that is_it() says yes to, or null.
  template <class IsIt>
  const Entry* find(std::uint64_t hash, const IsIt& is_it) {
    const std::size_t place = hash / 2 % Places;
    const Hashes& hashes = places_[place];
    for (std::size_t way = 0; way < Ways; ++way) {
      if (hashes[way] != hash) continue;
      const Entry* const known = std::launder(reinterpret_cast<const Entry*>(entry_at(place, way)));
      if (is_it(*known)) return known;
    }
    return nullptr;
  }

  /// What make(at) makes at an address that is its own; where make() throws, nothing is there.
  template <class Make>
  const Entry& add(std::uint64_t hash, const Make& make) {
    const std::size_t place = hash / 2 % Places;
    Hashes& hashes = places_[place];
    const auto vacant = static_cast<std::size_t>(std::find(hashes.begin(), hashes.end(), 0U) - hashes.begin());
    const std::size_t way = vacant < Ways ? vacant : (hash >> 32) % Ways;
    hashes[way] = 0;
    const Entry* const made = make(entry_at(place, way));
    hashes[way] = hash;
    return *made;
  }

 private:
  using Hashes = std::array<std::uint64_t, Ways>;  ///< 0: no entry
  static_assert(std::is_trivially_destructible_v<Entry>);

  std::byte* entry_at(std::size_t place, std::size_t way) {
    return entries_.data() + (place * Ways + way) * sizeof(Entry);
  }

  std::array<Hashes, Places> places_{};
  // Without a constructor's run, so that a page is the process's only once it is used.
  alignas(Entry) std::array<std::byte, Places * Ways * sizeof(Entry)> entries_;
};

}  // namespace cubit::ops
