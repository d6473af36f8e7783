// Where a tile's bytes lie in shared memory, and the proof of how its accesses meet the 32 banks.
//
// A layout is affine, row · pitch + byte, or that for part after part of all rows, then an optional XOR of address
// bits. Search proposes, enumeration proves: every lane and instance of every access of the plan is composed with the
// layout and distinct words per bank are counted.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cubit::codegen {

/// address ^= ((address >> shift_from) & (2^bits - 1)) << base. The identity when bits == 0.
/// `shift_from` >= base + bits, so the map is its own inverse.
struct Swizzle {
  int bits = 0;
  int base = 4;
  int shift_from = 7;

  int apply(int address) const { return address ^ (((address >> shift_from) & ((1 << bits) - 1)) << base); }
  auto operator<=>(const Swizzle&) const = default;
};

/// A byte of a tile.
struct TileByte {
  int row = 0;
  int byte = 0;
};

/// rows × row_bytes of payload, `pitch` bytes from row to row. Rows may be cut into parts: then come first the first
/// parts of all rows, `pitch` apart, after them all second ones.
struct TileLayout {
  int rows = 0;
  int row_bytes = 0;
  int pitch = 0;
  Swizzle swizzle;
  int part_bytes = 0;  ///< 0: rows are whole

  int address(TileByte at) const { return swizzle.apply(affine(at)); }
  int size() const;  ///< bytes to reserve: every address is below it
  auto operator<=>(const TileLayout&) const = default;

 private:
  int affine(TileByte at) const {
    if (part_bytes == 0) return at.row * pitch + at.byte;
    return (at.byte / part_bytes * rows + at.row) * pitch + at.byte % part_bytes;
  }
};

enum class AccessKind { load, store, ldmatrix, stmatrix };

/// One instruction of the kernel as it walks a tile: for each instance (loop step) and lane, the first byte it touches.
/// nullopt: that lane takes no part. For ldmatrix and stmatrix a lane supplies the address of one 16-byte row.
struct TileAccess {
  std::string name;  ///< "ldmatrix key words"
  AccessKind kind = AccessKind::load;
  int bytes_per_lane = 16;  ///< 2, 4, 8 or 16
  int instances = 1;
  std::function<std::optional<TileByte>(int instance, int lane)> at;
};

/// Lanes that the hardware serves together: 8, 16 or all 32, in order.
int lanes_per_phase(const TileAccess& access);

/// How an access meets the banks. `degree` is wavefronts over the fewest possible, rounded up, worst instance: 1 is
/// free of conflicts. `wavefronts` and `ideal` sum over all instances.
struct ConflictProof {
  std::string access;
  int degree = 0;
  int wavefronts = 0;
  int ideal = 0;
  auto operator<=>(const ConflictProof&) const = default;
};

/// Proof by enumeration. Hardware rule: 32 banks of 4 bytes; an access of 16 bytes per lane is served by quarter warps,
/// of 8 by half warps, otherwise whole; ldmatrix and stmatrix by groups of 8 lanes; lanes that read the same word share
/// it. Throws Failure(internal) if an address is misaligned for its width or lies outside the tile.
ConflictProof prove(const TileLayout& layout, const TileAccess& access);
std::vector<ConflictProof> prove(const TileLayout& layout, std::span<const TileAccess> accesses);

/// The simplest layout with the fewest wavefronts over all accesses: no swizzle and no padding before a swizzle before
/// padding, smallest size first. `alignment` is that of every row start (16 for ldmatrix and 16-byte copies).
TileLayout search_layout(int rows, int row_bytes, int alignment, std::span<const TileAccess> accesses);

/// Text of a constexpr device function `int name(int row, int byte)` that computes layout.address.
std::string layout_function(const std::string& name, const TileLayout& layout);

}  // namespace cubit::codegen
