// Decodes wgmma matrix descriptors and computes where a matrix of 16-bit or 8-bit elements lies in shared memory.
//
// Sources: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix Descriptor Format". The strides
// follow CUTLASS's canonical layouts (cute/arch/mma_sm90_desc.hpp).
//
// The unit is a chunk of 16 bytes: p elements along k (K-major), or along m or n (MN-major). p is 8 for 16-bit elements
// and 16 for bytes; bytes are K-major only. Let s be the swizzle's bytes, and LBO and SBO the descriptor's two offsets.
// Element (i, k), where i is the index along m or n, is in the chunk at
//
//   K-major,  no swizzle:  i % 8 · 16 + i / 8 · SBO + k / p · LBO
//   K-major,  swizzled:    i % 8 ·  s + i / 8 · SBO + k / p · 16                        (LBO is not used)
//   MN-major, no swizzle:  i / 8 · SBO + k % 8 · 16 + k / 8 · LBO
//   MN-major, swizzled:    i / 8 % (s / 16) · 16 + i / (s / 2) · LBO + k % 8 · s + k / 8 · SBO
//
// relative to the start. The swizzle then permutes bits of the address itself.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/cpu/helpers/swizzle.hpp"

namespace cubit::runtime::cpu {

/// The fields of a 64-bit descriptor. Offsets are in bytes.
struct MatrixDescriptor {
  std::uint64_t start;
  std::uint64_t leading;       ///< LBO
  std::uint64_t stride;        ///< SBO
  unsigned base_offset;        ///< only 0 can be executed
  std::uint64_t swizzle;       ///< 128, 64 or 32; 16 for no swizzle
  std::uint64_t unknown_bits;  ///< bits that belong to no field
};
MatrixDescriptor decode_descriptor(std::uint64_t bits);

/// Says why the descriptor cannot be executed, or returns "".
std::string broken_rule(const MatrixDescriptor& descriptor);

/// A matrix in shared memory.
struct DescribedMatrix {
  MatrixDescriptor descriptor;
  bool is_mn_major;   ///< only with 16-bit elements
  int element_bytes;  ///< 1 or 2

  int chunk_elements() const { return static_cast<int>(kSwizzleChunk) / element_bytes; }
};

/// Shared-memory address of the chunk that holds element (i, k).
std::uint64_t chunk_address(const DescribedMatrix& matrix, int i, int k);

}  // namespace cubit::runtime::cpu
