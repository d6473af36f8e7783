// Computes the floating-point result of mma exactly as a tensor core does, bit for bit.
//
// A tensor core splits k into parts. It sums the products of one part and the addend at once, as integers. Each product
// is unnormalised: its exponent is the sum of its factors' exponents, where a subnormal factor has the lowest normal
// exponent. Each term is shifted to the largest exponent among the nonzero terms and truncated after `fraction_bits`
// bits, towards zero. The sum itself is exact. The sum is then truncated to an f32, or rounded to the nearest even f16.
// A zero result is +0, and a NaN is 0x7fffffff or 0x7fff. The result is the addend of the next part.
//
// Sources: Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores" (PeerJ CS 7:e330, 2021) for
// sm_75 and sm_80; Xie et al., "MMA-Sim" (arXiv 2511.10909) for sm_75 to sm_120. For sm_90 the rows agree in every bit
// with results recorded on an H200 (tests/conformance). sm_90 has no mma for 8-bit formats: its assembler converts the
// factors to f16 and adds with two f16 instructions and an addition. wgmma has 8-bit formats: it keeps 13 fraction bits
// of all 32 products, of the addend and of the result (MMA-Sim; no recording yet).
#pragma once

#include <cstdint>

#include "runtime/cpu/arithmetic/numbers.hpp"

namespace cubit::runtime::cpu {

/// How the tensor cores of an architecture sum one group of formats.
struct TensorCore {
  int first_sm;          ///< first architecture of the row: 80 means from sm_80 on
  bool eight_bits;       ///< the row is for e4m3 and e5m2; otherwise for f16, bf16 and tf32
  int fraction_bits;     ///< fraction bits kept of each term
  int terms_of_16_bits;  ///< 16-bit products summed at once; tf32 half as many, 8-bit formats twice as many
  int result_bits;       ///< mantissa bits of an f32 result
  bool through_f16;      ///< factors become f16, the halves of each register are summed separately, then the addend is
                         ///< added
};

/// Returns the row of an architecture for mma: the last row whose first_sm is at most `sm`.
const TensorCore& tensor_core(int sm, Format factor);
/// Returns the row of sm_90a for wgmma.
const TensorCore& warpgroup_tensor_core(Format factor);

/// Formats and sizes of one mma instruction. n is always 8.
struct MatrixShape {
  Format a;
  Format b;
  Format c;  ///< f16 or f32; also the format of the result
  int m;     ///< at most 16
  int k;     ///< at most 64
};

/// Computes a · b + c. All matrices hold the bits of numbers. `a` is row-major, `b` is column-major, and `c` is
/// row-major and receives the result.
void multiply_add(const TensorCore& core, const MatrixShape& shape, const std::uint32_t* a, const std::uint32_t* b,
                  std::uint32_t* c);

/// Bounds the error of a sum of `terms` (k products and the addend) before it is rounded to its format:
/// 2^-fraction_bits · terms · largest. `largest` is the largest of |a_i · b_i| and |c|, where a subnormal factor counts
/// as the lowest normal number.
double sum_bound(const TensorCore& core, int terms, double largest);

}  // namespace cubit::runtime::cpu
