// A set-associative table of recently made objects, found by the hash of their inputs. A table has a few hundred
// entries of a few bytes or kilobytes each. A table belongs to one thread and needs no lock.
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

/// Hash of four numbers followed by `bytes`, whose size is a multiple of 8; never 0. Four independent chains of
/// multiplications let the processor overlap them.
std::uint64_t hash_of(const std::array<std::uint64_t, 4>& numbers, std::span<const std::byte> bytes);

/// `Places` sets of `Ways` entries each. If the set of a new entry is full, the hash chooses the entry that is
/// replaced. Engines repeat the same sequence of launches: if a sequence is too long for its set, this choice keeps
/// some entries, while a replacement of the least recently used entry would always evict the entry that is needed next.
template <class Entry, std::size_t Places, std::size_t Ways>
class RecentTable {
 public:
  /// The entry of this hash for which is_it(entry) is true, or null.
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

  /// Adds the entry that make(at) constructs at the address `at`. If make() throws, that way of the set is empty.
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
  // Not initialised, so that a page takes memory only once an entry is stored in it.
  alignas(Entry) std::array<std::byte, Places * Ways * sizeof(Entry)> entries_;
};

}  // namespace cubit::ops
