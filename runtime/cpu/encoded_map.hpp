// The CPU device's tensor maps: the description itself, behind a mark that nothing else begins with.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/tensor_map.hpp"

namespace cubit::runtime::cpu {

struct MarkedMap {
  std::uint64_t mark = 0;
  TensorMap map;
};
static_assert(std::is_trivially_copyable_v<MarkedMap> && sizeof(MarkedMap) <= sizeof(EncodedTensorMap));

inline constexpr std::uint64_t kMapMark = 0x70616d2d74696275;  // "ubit-map"

inline EncodedTensorMap encode(const TensorMap& map) {
  const MarkedMap marked{kMapMark, map};
  EncodedTensorMap encoded{};
  std::memcpy(encoded.bytes.data(), &marked, sizeof marked);
  return encoded;
}

/// False: `encoded`, at any address, is not a map that `encode` made. One that is may still break a rule.
inline bool decode(const std::byte* encoded, TensorMap& dst) {
  MarkedMap marked;
  std::memcpy(&marked, encoded, sizeof marked);
  if (marked.mark != kMapMark) return false;
  dst = marked.map;
  return true;
}

}  // namespace cubit::runtime::cpu
