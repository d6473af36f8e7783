// Runs small PTX kernels on the executor: one instruction under test, with operands and results in memory.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cpu/program.hpp"

namespace cubit::tests {

using runtime::cpu::kLanes;

/// A kernel and its launch. `input` and `output` lie in global memory, with their addresses in the 64-bit registers %in
/// and %out; %t is the thread. `body` may use %r0 … %r31, %s0 … (16 bits), %d0 … (64 bits), %f0 …, %g0 … (.f64) and %p0
/// ….
struct Case {
  std::string body = {};
  std::string declarations = {};  ///< text before the body: .shared variables and similar
  unsigned threads = kLanes;
  unsigned blocks = 1;
  unsigned rows = 1;  ///< rows of blocks: the grid's y
  unsigned dynamic_shared = 0;
  std::string directives = {};           ///< directives of the kernel: ".reqnctapercluster 2, 1, 1"
  std::array<unsigned, 3> cluster = {};  ///< cluster size of the launch
  std::chrono::milliseconds patience{60000};
  bool check = false;  ///< watched by the checker
};

std::string kernel_text(const Case& given);

/// Runs the kernel and returns the output: `words` 32-bit words that were 0xcdcdcdcd before.
std::vector<std::uint32_t> run(const Case& given, std::vector<std::uint32_t> input, std::size_t words);

/// Returns the text of the Failure that loading or running throws, or "".
std::string failure_of(const Case& given, std::vector<std::uint32_t> input = {}, std::size_t words = kLanes);

/// Applies `instruction`, which reads %r0, %r1, %r2 and writes %r3, to each row of three words, 32 rows at a time.
using Row = std::array<std::uint32_t, 3>;
std::vector<std::uint32_t> results_of(const std::string& instruction, const std::vector<Row>& rows);
/// The same with 64-bit registers %d0, %d1, %d2 and %d3.
using WideRow = std::array<std::uint64_t, 3>;
std::vector<std::uint64_t> wide_results_of(const std::string& instruction, const std::vector<WideRow>& rows);

/// Every combination of the corner values in up to three operands.
std::vector<Row> rows_of(const std::vector<std::uint32_t>& corners, int operands = 2);

inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Zero, ones, signs, all bits, and patterns around powers of two.
const std::vector<std::uint32_t>& integer_corners();
/// Both zeros, subnormals, the smallest and largest normals, infinities, NaNs and ordinary numbers.
const std::vector<std::uint32_t>& float_corners();

}  // namespace cubit::tests
