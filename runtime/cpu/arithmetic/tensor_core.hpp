// How a tensor core adds: what mma gives of floating-point matrices, bit for bit.
//
// The products of a part of k and the addend are summed at once, as integers: each is unnormalised (its exponent is the
// sum of its factors', a subnormal factor's is the lowest normal one), is shifted to the largest exponent among those
// that are not zero, and is cut behind `fraction_bits` bits, towards zero. The sum is exact. It is cut to an f32, or
// rounded to the nearest even f16; one of zero is +0, a NaN is 0x7fffffff or 0x7fff. The next part takes it as addend.
//
// Sources: Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores" (PeerJ CS 7:e330, 2021) for
// sm_75 and sm_80; Xie et al., "MMA-Sim" (arXiv 2511.10909) for sm_75 to sm_120; for sm_90 the recording of an H200 in
// tests/conformance, which the rows agree with in every bit. 8-bit formats have no mma there: its assembler makes f16
// of them and adds with two f16 instructions and an addition.
#pragma once

#include <cstdint>

#include "runtime/cpu/arithmetic/numbers.hpp"

namespace cubit::runtime::cpu {

struct TensorCore {
  int first_sm;          ///< 80: from sm_80 on
  bool eight_bits;       ///< of e4m3 and e5m2; otherwise of f16, bf16 and tf32
  int fraction_bits;     ///< kept of each term
  int terms_of_16_bits;  ///< products summed at once: of 16-bit factors; half of it of tf32, twice of 8 bits
  int result_bits;       ///< of an f32's mantissa
  bool through_f16;      ///< factors become f16; two sums over the halves of each register, then the addend
};

/// The row of an architecture: the last that begins at or below it.
const TensorCore& tensor_core(int sm, Format factor);

/// Of one instruction; n is 8.
struct MatrixShape {
  Format a;
  Format b;
  Format c;  ///< f16 or f32, also of the result
  int m;     ///< 16 or less
  int k;     ///< 64 or less
};

/// Numbers as their bits: `a` row-major, `b` column-major, `c` row-major, replaced by the result.
void multiply_add(const TensorCore& core, const MatrixShape& shape, const std::uint32_t* a, const std::uint32_t* b,
                  std::uint32_t* c);

/// The most that a sum of `terms` (k products and the addend) is from the exact one before it is cut to its format:
/// 2^-fraction_bits · terms · largest, where `largest` is that of |a_i · b_i| and |c|, a subnormal factor counted as
/// the lowest normal number.
double sum_bound(const TensorCore& core, int terms, double largest);

}  // namespace cubit::runtime::cpu
