// Which lane and register of a warp holds which matrix element: the documented tensor-core fragments as tables.
//
// Every map is linear over bits (GF(2)): bit i of the value index and bit j of the lane each contribute a fixed
// (row, column), and the contributions add. The tables stand beside the PTX ISA section that they state.
#pragma once

#include <span>
#include <string_view>

namespace cubit::codegen {

struct Element {
  int row = 0;
  int column = 0;
  auto operator<=>(const Element&) const = default;
};

/// (lane, value) -> (row, column). `value` counts the elements that one lane holds, in register order, low bits of a
/// register first: for 16-bit elements value 0 and 1 are the halves of register 0.
struct FragmentMap {
  std::string_view name;     ///< "mma.m16n8k16 A, 16-bit"
  std::string_view section;  ///< the PTX ISA section it states
  int rows = 0;
  int columns = 0;
  int element_bits = 16;
  int value_count = 0;                  ///< elements per lane
  std::span<const Element> value_bits;  ///< what each bit of the value index adds
  std::span<const Element> lane_bits;   ///< what each bit of the lane adds (5 of them)

  Element at(int lane, int value) const;
  int registers() const { return value_count * element_bits / 32; }
};

/// All tables: mma.sync A, B, C for every shape in the architecture tables, ldmatrix and stmatrix (plain, transposed),
/// movmatrix source and destination, a warp's parts of wgmma's A and D.
std::span<const FragmentMap> fragment_maps();

/// By name; throws Failure(internal) if there is none.
const FragmentMap& find_fragment(std::string_view name);

/// Where in the 64 × N of wgmma.mma_async's D thread 0 … 127 of the warpgroup holds register 0 … N/2 - 1.
Element warpgroup_accumulator(int thread, int value);

}  // namespace cubit::codegen
