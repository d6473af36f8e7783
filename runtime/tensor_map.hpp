// TensorMap: a tensor in global memory and the box of it that one TMA instruction copies.
//
// A TensorMap is a plain value. Device::encode turns it into the 128 bytes that a kernel takes. Sources: CUDA Driver
// API, "Tensor Map Object Management"; PTX ISA, "Tensors".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cubit::runtime {

/// How TMA permutes 16-byte chunks in shared memory so that a column of a box spreads over the banks. Address bits from
/// bit 4 on are XORed with the bits from bit 7 on. The value is the span in bytes within which chunks move. Sources:
/// CUDA C++ Programming Guide, "The Swizzle Modes"; PTX ISA, "Swizzling Modes".
enum class TensorSwizzle : std::uint8_t { none = 0, span32 = 32, span64 = 64, span128 = 128 };

/// A tensor and the box that one instruction copies. Dimension 0 is the innermost, contiguous dimension.
struct TensorMap {
  static constexpr int kMostDimensions = 5;

  std::uint64_t base = 0;  ///< device address of element (0, …, 0)
  int element_bytes = 1;   ///< 1, 2, 4 or 8
  int rank = 1;            ///< number of dimensions; array entries beyond `rank` are ignored
  std::array<std::uint64_t, kMostDimensions> sizes{};        ///< in elements
  std::array<std::uint64_t, kMostDimensions - 1> strides{};  ///< in bytes, of dimensions 1 …
  std::array<std::uint32_t, kMostDimensions> box{};          ///< in elements; elements outside the tensor are filled
                                                             ///< with zeros
  TensorSwizzle swizzle = TensorSwizzle::none;
  std::uint16_t l2_bytes = 0;  ///< L2 fetch granularity: 64, 128 or 256 bytes, or 0 for the device's default

  bool operator==(const TensorMap&) const = default;
  std::uint64_t row_bytes() const { return std::uint64_t{box[0]} * static_cast<std::uint64_t>(element_bytes); }
  std::uint64_t box_bytes() const;  ///< bytes that a box occupies in shared memory and reports to its mbarrier, even if
                                    ///< the box lies partly outside

  /// For messages: "tensor map of 128 x 4096 elements of 2 bytes at 0x7f00 in boxes of 64 x 32".
  std::string text() const;
};

/// Returns the rule of cuTensorMapEncodeTiled that the map breaks, as a sentence, or "" if the map is valid.
std::string broken_rule(const TensorMap& map);

/// Throws Failure(invalid_argument), which names the map and the broken rule, if the map is not valid.
void validate(const TensorMap& map);

/// A tensor map in a device's encoding. An encoded map is a member of a kernel's `const __grid_constant__`
/// argument struct. CUDA 13 asks for 128 bytes of alignment; earlier versions were content with 64.
struct alignas(128) EncodedTensorMap {
  std::array<std::byte, 128> bytes;
};

/// The first offset from `bytes` on at which an argument struct may have a tensor map.
constexpr std::size_t map_offset(std::size_t bytes) {
  return (bytes + alignof(EncodedTensorMap) - 1) / alignof(EncodedTensorMap) * alignof(EncodedTensorMap);
}

}  // namespace cubit::runtime
