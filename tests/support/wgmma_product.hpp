// A 64 × K by K × N matrix product of four wgmma.mma_async instructions, as kernel text and input. K is 64 for elements
// of 16 bits and 128 for bytes.
//
// The product covers all places where wgmma can take operands from. Matrices lie in shared memory as a tensor map's
// copies leave them, or as plain core matrices. PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::tests {

/// One operand in shared memory: `rows` along m or n, times 128 bytes along k.
struct WgmmaOperand {
  int rows;
  int swizzle;  ///< bytes: 0 for none, 32, 64 or 128
  bool is_mn_major;
  int element_bytes;  ///< 2, or 1 if the matrix is K-major

  int bytes() const;
  int place(int i, int k) const;     ///< byte offset of an element
  int start(int k) const;            ///< byte offset at which the descriptor of the step from k on begins
  std::uint64_t descriptor() const;  ///< without the start address

 private:
  int k() const { return 128 / element_bytes; }
  int width() const { return swizzle / element_bytes; }      ///< elements of a swizzled tile's row
  int chunk_elements() const { return 16 / element_bytes; }  ///< a chunk has 16 bytes
  int tile_bytes() const;
  int core_stride_mn() const;
  int core_stride_k() const;
};

struct WgmmaProduct {
  static constexpr int kM = 64;
  static constexpr int kSteps = 4;
  static constexpr int kWarpgroup = 128;

  int n = 8;
  const char* type = "bf16";  ///< of A and B: "bf16", "f16", "e4m3" or "s8"; bytes are K-major
  int swizzle = 128;
  bool a_in_registers = true;
  bool a_is_m_major = false;
  bool b_is_n_major = false;
  int scale_a = 1;
  int scale_b = 1;
  bool adds = false;              ///< accumulators have initial values
  unsigned threads = kWarpgroup;  ///< every warpgroup computes the same product
  int exponents = 2;              ///< numbers have exponents down to minus this; 0: integers from -15 to 15
  bool saturates = false;         ///< .satfinite, with "s8"

  bool is_integer() const { return std::string_view(type) == "s8"; }
  int element_bytes() const { return is_integer() || std::string_view(type) == "e4m3" ? 1 : 2; }
  int step() const { return 32 / element_bytes(); }  ///< k of one instruction
  int k() const { return kSteps * step(); }

  std::string text() const;
  WgmmaOperand a() const { return {kM, swizzle, a_is_m_major, element_bytes()}; }
  WgmmaOperand b() const { return {n, swizzle, b_is_n_major, element_bytes()}; }

  // Parts of the text of a kernel with %in, %out, %t, scratch registers %r0 …, %d0 … and %p0. Each thread's results are
  // N / 2 words.
  std::string declarations() const;
  std::string body() const;
  std::size_t results() const { return threads * static_cast<std::size_t>(n) / 2; }
};

/// The numbers of a product. Numbers have eight significant bits, or four for e4m3, so the type can represent them.
/// Signed bytes have any value, and integer addends are close to the ends of their range.
struct WgmmaNumbers {
  std::vector<double> a;  ///< [64][K], ordered by row and then by k
  std::vector<double> b;  ///< [N][K]
  std::vector<double> c;  ///< [64][N], each an fp32 number or an integer of 32 bits

  explicit WgmmaNumbers(const WgmmaProduct& product);
  /// The memory that the kernel reads.
  std::vector<std::uint32_t> input(const WgmmaProduct& product) const;
};

}  // namespace cubit::tests
