// Cases of the most common form: an instruction applied to rows of operands, one row per thread.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/cases.hpp"

namespace cubit::conformance {

/// Operands of one thread, in the low bits.
using Row = std::array<std::uint64_t, 4>;
using Rows = std::vector<Row>;

/// An elementwise case. The body reads %a0 … and writes %z0 …, registers of the given widths. The body may use
/// predicates %p0 …, the scratch registers %s0 … (16 bits), %r0 … (32) and %d0 … (64), and %t, the thread in the block.
struct Elementwise {
  std::string name;
  std::string body;
  std::vector<int> sources;  ///< bytes of each operand's register: 2, 4 or 8
  std::vector<int> results;  ///< bytes of each result's register
  Rule rule = {};
  std::string declarations = {};  ///< variables of the module
  unsigned threads = 32;
  /// Computes the results of a row, in the low bits; null: there is no model (Case::model).
  std::function<Row(const Row&)> model = {};
};
void add(Cases& cases, const Elementwise& given, const Rows& rows);

/// Kernel text with the usual frame: %in and %out hold the addresses, %t the thread, %b the block.
std::string kernel_text(std::string_view declarations, std::string_view body, std::string_view directives = {});

// Functions that make rows. With a list of values for several operands, the rows are all combinations, followed by
// `random` rows of `draw`.
using Values = std::vector<std::uint64_t>;
Rows all_of(const Values& values);
Rows combinations(const Values& values, int operands, std::size_t limit = 20000);
Rows combinations(const std::vector<Values>& operands);
Rows exhaustive16();  ///< all 65536 values of operand 0
/// Appends `count` rows of random bits that are the same on every machine.
Rows with_random(Rows rows, std::size_t count, std::uint64_t seed);
/// Appends random floats whose exponents lie within `spread` of 1.
Rows with_random_floats(Rows rows, std::string_view format, std::size_t count, int spread, std::uint64_t seed);

// Functions that make values.
Values integer_corners(int bits);
Values float_corners(std::string_view format);  ///< `format`: "f16", "bf16", "f32" or "f64"
std::uint64_t random_bits(std::uint64_t& state);

}  // namespace cubit::conformance
