// The CPU device's encoding of tensor maps: the TensorMap itself behind a magic number.
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

/// Reads an encoded map at any address. Returns false if encode() did not make the bytes. A map that was changed
/// afterwards may still break a rule.
inline bool decode(const std::byte* encoded, TensorMap& dst) {
  MarkedMap marked;
  std::memcpy(&marked, encoded, sizeof marked);
  if (marked.mark != kMapMark) return false;
  dst = marked.map;
  return true;
}

}  // namespace cubit::runtime::cpu
