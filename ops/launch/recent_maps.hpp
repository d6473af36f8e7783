// A cache of encoded tensor maps of one thread. A KV cache keeps its address while other arguments of a launch change,
// and the driver takes as long to encode a tensor map as the rest of a launch takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "ops/launch/recent_table.hpp"
#include "runtime/tensor_map.hpp"

namespace cubit::ops {

/// Holds 512 tensor maps: one step of a large model has two maps for each layer. Each thread has its own table
/// (of_this_thread); a full table takes 128 KB.
class RecentMaps {
 public:
  /// The map as it was encoded for `device` (Device::identity()) before, or else as encode() encodes it now. Throws
  /// only what encode() throws.
  template <class Encode>
  const runtime::EncodedTensorMap& find_or_encode(std::uint64_t device, const runtime::TensorMap& map,
                                                  const Encode& encode) {
    const Words words = words_of(device, map);
    const std::uint64_t hash = hash_of({}, std::as_bytes(std::span(words)));
    const Entry* const known = table_.find(hash, [&](const Entry& entry) { return entry.words == words; });
    if (known != nullptr) return known->encoded;
    return table_.add(hash, [&](std::byte* at) { return new (at) Entry{words, encode()}; }).encoded;
  }

 private:
  /// The device and all members of a map, as words that can be compared and hashed.
  using Words = std::array<std::uint64_t, 15>;
  static Words words_of(std::uint64_t device, const runtime::TensorMap& map) {
    static_assert(sizeof map == 112, "add a new member of TensorMap to these words");
    const auto both = [](std::uint64_t low, std::uint64_t high) { return low | high << 32; };
    const auto& [n0, n1, n2, n3, n4] = map.sizes;
    const auto& [s1, s2, s3, s4] = map.strides;
    const auto& box = map.box;
    return {device,
            map.base,
            n0,
            n1,
            n2,
            n3,
            n4,
            s1,
            s2,
            s3,
            s4,
            both(box[0], box[1]),
            both(box[2], box[3]),
            both(box[4], static_cast<std::uint32_t>(map.element_bytes)),
            both(static_cast<std::uint32_t>(map.rank), static_cast<std::uint32_t>(map.swizzle) << 16 | map.l2_bytes)};
  }
  struct Entry {
    Words words;
    runtime::EncodedTensorMap encoded;
  };
  RecentTable<Entry, 128, 4> table_;
};

}  // namespace cubit::ops
