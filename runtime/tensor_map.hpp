// A tensor in global memory and the boxes of it that one instruction copies (TMA). A plain value; Device::encode makes
// of it the 128 bytes that a kernel takes. CUDA Driver API, "Tensor Map Object Management"; PTX ISA, "Tensors".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cubit::runtime {

/// How chunks of 16 bytes change places in shared memory, so that a column of a box meets different banks: bits 4 … of
/// the address are xor'ed with bits 7 …. The value is the span in bytes within which they do. CUDA C++ Programming
/// Guide, "The Swizzle Modes"; PTX ISA, "Swizzling Modes".
enum class TensorSwizzle : std::uint8_t { none = 0, span32 = 32, span64 = 64, span128 = 128 };

struct TensorMap {
  static constexpr int kMostDimensions = 5;

  std::uint64_t base = 0;  ///< device address of element (0, …, 0)
  int element_bytes = 1;   ///< 1, 2, 4 or 8
  int rank = 1;            ///< dimensions, of which 0 is contiguous; the entries of those beyond are not looked at
  std::array<std::uint64_t, kMostDimensions> sizes{};        ///< elements
  std::array<std::uint64_t, kMostDimensions - 1> strides{};  ///< in bytes, of dimensions 1 …
  std::array<std::uint32_t, kMostDimensions> box{};          ///< elements of a copy; those outside the tensor are zeros
  TensorSwizzle swizzle = TensorSwizzle::none;
  std::uint16_t l2_bytes = 0;  ///< what the second-level cache fetches at once: 64, 128, 256, or 0 as it likes

  bool operator==(const TensorMap&) const = default;
  std::uint64_t row_bytes() const { return std::uint64_t{box[0]} * static_cast<std::uint64_t>(element_bytes); }
  std::uint64_t box_bytes() const;  ///< of shared memory, and at the mbarrier: wherever the box lies

  /// "tensor map of 128 x 4096 elements of 2 bytes at 0x7f00 in boxes of 64 x 32"
  std::string text() const;
};

/// The rule of cuTensorMapEncodeTiled that the map breaks, as a sentence; empty if it breaks none.
std::string broken_rule(const TensorMap& map);

/// Throws Failure(invalid_argument) that names the map and the rule it breaks, if any.
void validate(const TensorMap& map);

/// A map as its device reads it: a member of a kernel's `const __grid_constant__` argument struct.
struct alignas(64) EncodedTensorMap {
  std::array<std::byte, 128> bytes;
};

}  // namespace cubit::runtime
