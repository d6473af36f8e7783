// A 64 × 64 by 64 × N matrix product of four wgmma.mma_async instructions, as kernel text and input.
//
// The product covers all places where wgmma can take operands from. Matrices lie in shared memory as a tensor map's
// copies leave them, or as plain core matrices. PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cubit::tests {

/// One operand in shared memory: `rows` along m or n, times 64 along k.
struct WgmmaOperand {
  int rows;
  int swizzle;  ///< bytes: 0 for none, 32, 64 or 128
  bool is_mn_major;

  int bytes() const;
  int place(int i, int k) const;     ///< byte offset of an element
  int start(int k) const;            ///< byte offset at which the descriptor of the step from k on begins
  std::uint64_t descriptor() const;  ///< without the start address

 private:
  int width() const { return swizzle / 2; }  ///< elements of a swizzled tile's row
  int tile_bytes() const;
  int core_stride_mn() const;
  int core_stride_k() const;
};

struct WgmmaProduct {
  static constexpr int kM = 64;
  static constexpr int kK = 64;
  static constexpr int kStep = 16;
  static constexpr int kWarpgroup = 128;

  int n = 8;
  const char* type = "bf16";
  int swizzle = 128;
  bool a_in_registers = true;
  bool a_is_m_major = false;
  bool b_is_n_major = false;
  int scale_a = 1;
  int scale_b = 1;
  bool adds = false;              ///< accumulators have initial values
  unsigned threads = kWarpgroup;  ///< every warpgroup computes the same product
  int exponents = 2;              ///< numbers have exponents down to minus this; 0: integers from -15 to 15

  std::string text() const;
  WgmmaOperand a() const { return {kM, swizzle, a_is_m_major}; }
  WgmmaOperand b() const { return {n, swizzle, b_is_n_major}; }

  // Parts of the text of a kernel with %in, %out, %t, scratch registers %r0 …, %d0 … and %p0. Each thread's results are
  // N / 2 words.
  std::string declarations() const;
  std::string body() const;
  std::size_t results() const { return threads * static_cast<std::size_t>(n) / 2; }
};

/// The numbers of a product. Numbers have eight significant bits, so both types can represent them.
struct WgmmaNumbers {
  std::vector<double> a;  ///< [64][64], ordered by row and then by k
  std::vector<double> b;  ///< [N][64]
  std::vector<float> c;   ///< [64][N]

  explicit WgmmaNumbers(const WgmmaProduct& product);
  /// The memory that the kernel reads.
  std::vector<std::uint32_t> input(const WgmmaProduct& product) const;
};

}  // namespace cubit::tests
