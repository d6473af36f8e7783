// A product of a 64 × 64 and a 64 × N matrix by four wgmma.mma_async, as a kernel's text and its input, for every place
// that wgmma can take its operands from. Matrices are laid into shared memory as a tensor map's copies leave them, or
// as plain core matrices. PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cubit::tests {

/// One operand in shared memory: `rows` of m or n, times 64 of k.
struct WgmmaOperand {
  int rows;
  int swizzle;  ///< bytes: 0 for none, 32, 64, 128
  bool is_mn_major;

  int bytes() const;
  int place(int i, int k) const;     ///< byte offset of an element
  int start(int k) const;            ///< byte offset at which the descriptor of the step from k on begins
  std::uint64_t descriptor() const;  ///< but for the start

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
  bool adds = false;              ///< to accumulators that are there before
  unsigned threads = kWarpgroup;  ///< every warpgroup computes the same
  int exponents = 2;              ///< of the numbers: from minus this on; 0: integers from -15 to 15

  std::string text() const;
  WgmmaOperand a() const { return {kM, swizzle, a_is_m_major}; }
  WgmmaOperand b() const { return {n, swizzle, b_is_n_major}; }

  // Of a kernel that has %in, %out, %t, scratch registers %r0 …, %d0 … and %p0. Results: N / 2 words of each thread.
  std::string declarations() const;
  std::string body() const;
  std::size_t results() const { return threads * static_cast<std::size_t>(n) / 2; }
};

/// Its numbers: of eight significant bits, so that both types hold them.
struct WgmmaNumbers {
  std::vector<double> a;  ///< [64][64], k after k
  std::vector<double> b;  ///< [N][64]
  std::vector<float> c;   ///< [64][N]

  explicit WgmmaNumbers(const WgmmaProduct& product);
  /// What the kernel reads.
  std::vector<std::uint32_t> input(const WgmmaProduct& product) const;
};

}  // namespace cubit::tests
