// The XOR swizzle of shared-memory addresses that TMA and wgmma use. Sources: CUDA C++ Programming Guide, "The Swizzle
// Modes"; PTX ISA, "Shared Memory Matrix Layout".
#pragma once

#include <cstdint>

namespace cubit::runtime::cpu {

inline constexpr std::uint64_t kSwizzleChunk = 16;  ///< bytes that stay contiguous

/// Returns the swizzled address for a swizzle span of `bytes` (32, 64 or 128; 16: no swizzle).
inline std::uint64_t swizzled_address(std::uint64_t address, std::uint64_t bytes) {
  return address ^ (address >> 3 & (bytes - kSwizzleChunk));
}

}  // namespace cubit::runtime::cpu
