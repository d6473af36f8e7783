// Maps the bytes of a tile to shared-memory addresses, and proves how accesses to the tile conflict on the 32 banks.
//
// A layout is affine (row · pitch + byte), optionally split into column parts, followed by an optional XOR of address
// bits. A search proposes layouts and an enumeration proves them: it computes the address of every lane in every
// instance of every access of the plan, and counts distinct words per bank.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cubit::codegen {

/// An XOR swizzle of address bits: address ^= ((address >> shift_from) & (2^bits - 1)) << base. The swizzle is the
/// identity when bits == 0. `shift_from` >= base + bits, so the map is its own inverse.
struct Swizzle {
  int bits = 0;
  int base = 4;
  int shift_from = 7;

  int apply(int address) const { return address ^ (((address >> shift_from) & ((1 << bits) - 1)) << base); }
  auto operator<=>(const Swizzle&) const = default;
};

/// The position of a byte within a tile.
struct TileByte {
  int row = 0;
  int byte = 0;
};

/// A tile of `rows` × `row_bytes` bytes with `pitch` bytes from row to row. If part_bytes is not 0, rows are split into
/// parts of part_bytes: the first parts of all rows come first, `pitch` apart, then the second parts of all rows, and
/// so on.
struct TileLayout {
  int rows = 0;
  int row_bytes = 0;
  int pitch = 0;
  Swizzle swizzle;
  int part_bytes = 0;  ///< bytes of a part; 0: rows are not split

  int address(TileByte at) const { return swizzle.apply(affine(at)); }
  int size() const;  ///< bytes to reserve; every address is below this number
  auto operator<=>(const TileLayout&) const = default;

 private:
  int affine(TileByte at) const {
    if (part_bytes == 0) return at.row * pitch + at.byte;
    return (at.byte / part_bytes * rows + at.row) * pitch + at.byte % part_bytes;
  }
};

enum class AccessKind { load, store, ldmatrix, stmatrix };

/// One memory instruction of the kernel. `at` gives the first byte that a lane accesses in an instance (loop step), or
/// nullopt if the lane is inactive. For ldmatrix and stmatrix each lane supplies the address of one 16-byte row.
struct TileAccess {
  std::string name;  ///< for messages: "ldmatrix key words"
  AccessKind kind = AccessKind::load;
  int bytes_per_lane = 16;  ///< 2, 4, 8 or 16
  int instances = 1;
  std::function<std::optional<TileByte>(int instance, int lane)> at;
};

/// The number of lanes that the hardware serves together, in lane order: 8, 16 or 32.
int lanes_per_phase(const TileAccess& access);

/// The bank conflicts of an access. `degree` is the number of wavefronts divided by the fewest possible, rounded up, in
/// the worst instance; 1 means no conflicts. `wavefronts` and `ideal` are sums over all instances.
struct ConflictProof {
  std::string access;
  int degree = 0;
  int wavefronts = 0;
  int ideal = 0;
  auto operator<=>(const ConflictProof&) const = default;
};

/// Proves the conflicts of an access by enumeration. The hardware rule: shared memory has 32 banks of 4 bytes. A
/// quarter warp is served at a time for 16 bytes per lane, a half warp for 8 bytes, and otherwise the whole warp.
/// ldmatrix and stmatrix are served in groups of 8 lanes. Lanes that read the same word share one access. Throws
/// Failure(internal) if an address is misaligned for its width or lies outside the tile.
ConflictProof prove(const TileLayout& layout, const TileAccess& access);
std::vector<ConflictProof> prove(const TileLayout& layout, std::span<const TileAccess> accesses);

/// Returns the simplest layout with the fewest wavefronts over all accesses. Layouts without swizzle and padding come
/// first, then swizzled, then padded layouts, and smaller layouts come before larger ones. `alignment` is the alignment
/// of every row start in bytes (16 for ldmatrix and 16-byte copies).
TileLayout search_layout(int rows, int row_bytes, int alignment, std::span<const TileAccess> accesses);

/// Returns the text of a constexpr device function `int name(int row, int byte)` that computes layout.address().
std::string layout_function(const std::string& name, const TileLayout& layout);

}  // namespace cubit::codegen
