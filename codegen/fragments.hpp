// Tensor-core fragments as tables: which lane and register of a warp holds which matrix element.
//
// Every map is linear over bits (GF(2)): bit i of the value index and bit j of the lane each contribute a fixed (row,
// column), and the contributions add. Each table names the PTX ISA section that it states.
#pragma once

#include <span>
#include <string_view>

namespace cubit::codegen {

struct Element {
  /// The position of an element in a matrix.
  int row = 0;
  int column = 0;
  auto operator<=>(const Element&) const = default;
};

/// A map (lane, value) -> (row, column). `value` counts the elements that one lane holds, in register order, starting
/// with the low bits of a register. For 16-bit elements, values 0 and 1 are the halves of register 0.
struct FragmentMap {
  std::string_view name;     ///< "mma.m16n8k16 A, 16-bit"
  std::string_view section;  ///< the PTX ISA section that the map states
  int rows = 0;
  int columns = 0;
  int element_bits = 16;
  int value_count = 0;                  ///< elements per lane
  std::span<const Element> value_bits;  ///< contribution of each bit of the value index
  std::span<const Element> lane_bits;   ///< contribution of each of the 5 bits of the lane

  Element at(int lane, int value) const;
  int registers() const { return value_count * element_bits / 32; }
};

/// All tables: mma.sync A, B and C for every shape in the architecture table, ldmatrix and stmatrix (plain and
/// transposed), movmatrix source and destination, and one warp's share of wgmma's A and D.
std::span<const FragmentMap> fragment_maps();

/// Returns a map by its name. Throws Failure(internal) if there is no such map.
const FragmentMap& find_fragment(std::string_view name);

/// Position within the 64 × N result D of wgmma.mma_async that thread 0 … 127 of the warpgroup holds in register 0 …
/// N/2 - 1.
Element warpgroup_accumulator(int thread, int value);

}  // namespace cubit::codegen
