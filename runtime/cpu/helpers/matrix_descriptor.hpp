// Where a 16-bit matrix of wgmma lies in shared memory. PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory
// Layout", "Matrix Descriptor Format"; the strides as CUTLASS's canonical layouts have them
// (cute/arch/mma_sm90_desc.hpp).
//
// The unit is a chunk of 16 bytes: 8 elements along k (K-major) or along m or n (MN-major). With s the swizzle's bytes,
// LBO and SBO the descriptor's two offsets, element (i, k), i of m or n, is in the chunk at
//
//   K-major,  no swizzle:  i % 8 · 16 + i / 8 · SBO + k / 8 · LBO
//   K-major,  swizzled:    i % 8 ·  s + i / 8 · SBO + k / 8 · 16                        (LBO is not used)
//   MN-major, no swizzle:  i / 8 · SBO + k % 8 · 16 + k / 8 · LBO
//   MN-major, swizzled:    i / 8 % (s / 16) · 16 + i / (s / 2) · LBO + k % 8 · s + k / 8 · SBO
//
// from the start on, and the swizzle then moves bits of the address itself.
#pragma once

#include <cstdint>
#include <string>

namespace cubit::runtime::cpu {

/// The fields of the 64 bits; offsets in bytes.
struct MatrixDescriptor {
  std::uint64_t start;
  std::uint64_t leading;       ///< LBO
  std::uint64_t stride;        ///< SBO
  unsigned base_offset;        ///< 0 is executed
  std::uint64_t swizzle;       ///< 128, 64, 32, or 16 for none
  std::uint64_t unknown_bits;  ///< that belong to no field
};
MatrixDescriptor decode_descriptor(std::uint64_t bits);

/// What prevents it from being executed; "" if nothing does.
std::string broken_rule(const MatrixDescriptor& descriptor);

/// Address in shared memory of the chunk that holds (i, k).
std::uint64_t chunk_address(const MatrixDescriptor& descriptor, bool is_mn_major, int i, int k);

}  // namespace cubit::runtime::cpu
