// Cases of the commonest form: an instruction applied to rows of operands, one row per thread.
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

/// The body reads %a0 … and writes %z0 …, registers of the widths given; it may use predicates %p0 …, the scratch
/// registers %s0 … (16 bits), %r0 … (32) and %d0 … (64), and %t, the thread in the block.
struct Elementwise {
  std::string name;
  std::string body;
  std::vector<int> sources;  ///< bytes of each operand's register: 2, 4 or 8
  std::vector<int> results;  ///< of each result's
  Rule rule = {};
  std::string declarations = {};  ///< of the module: variables
  unsigned threads = 32;
  /// The results of a row, in the low bits; null: there is no model (Case::model).
  std::function<Row(const Row&)> model = {};
};
void add(Cases& cases, const Elementwise& given, const Rows& rows);

/// A kernel of the usual frame: %in and %out hold the addresses, %t the thread, %b the block.
std::string kernel_text(std::string_view declarations, std::string_view body, std::string_view directives = {});

// Rows. Where a list of values is asked for in several operands, every combination, then `random` rows of `draw`.
using Values = std::vector<std::uint64_t>;
Rows all_of(const Values& values);
Rows combinations(const Values& values, int operands, std::size_t limit = 20000);
Rows combinations(const std::vector<Values>& operands);
Rows exhaustive16();  ///< all 65536 values of operand 0
/// Appends `count` rows of random bits, the same on every machine.
Rows with_random(Rows rows, std::size_t count, std::uint64_t seed);
/// The same, of floats whose exponents lie within `spread` of 1.
Rows with_random_floats(Rows rows, std::string_view format, std::size_t count, int spread, std::uint64_t seed);

// Values.
Values integer_corners(int bits);
Values float_corners(std::string_view format);  ///< "f16", "bf16", "f32", "f64"
std::uint64_t random_bits(std::uint64_t& state);

}  // namespace cubit::conformance
