// Warp-level matrix multiply-accumulate of 8-bit operands.
//
// Fragments (PTX ISA, "Matrix Fragments for mma.m16n8k32"), with r = lane / 4 and c = lane % 4:
//   A 16 × 32: a0 (r, 4c..), a1 (r+8, 4c..), a2 (r, 4c+16..), a3 (r+8, 4c+16..)      four bytes along k
//   B 32 × 8:  b0 (4c.., r), b1 (4c+16.., r)                                           four bytes along k
//   C 16 × 8:  c0 (r, 2c), c1 (r, 2c+1), c2 (r+8, 2c), c3 (r+8, 2c+1)
// In bytes these are the fragments of m16n8k16 with 16-bit operands: see mma.cuh.
//
// Fragments of m8n8k16 (PTX ISA, "Matrix Fragments for mma.m8n8k16"): A 8 × 16 and B 16 × 8 have one register each,
// (r, 4c..) and (4c.., r), and C 8 × 8 has c0 (r, 2c) and c1 (r, 2c+1). Registers a[i], b0, b1, c[0..1] and c[2..3] of
// m16n8k32 therefore are fragments of m8n8k16.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// c += a · b of signed bytes with m8n8k16: 8 rows of m16n8k32 and half of its k.
__device__ __forceinline__ void mma_m8n8k16(int& c0, int& c1, uint32 a, uint32 b) {
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+r"(c0), "+r"(c1)
      : "r"(a), "r"(b));
}

/// c += a · b of signed bytes, exact in 32 bits. On sm_75 the function issues four m8n8k16 instructions.
__device__ __forceinline__ void mma_m16n8k32(int (&c)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
#if __CUDA_ARCH__ < 800
  mma_m8n8k16(c[0], c[1], a[0], b0);
  mma_m8n8k16(c[2], c[3], a[1], b0);
  mma_m8n8k16(c[0], c[1], a[2], b1);
  mma_m8n8k16(c[2], c[3], a[3], b1);
#else
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// c += a · b of e4m3 with fp32 accumulation. Needs sm_89.
__device__ __forceinline__ void mma_m16n8k32(float (&c)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace cubit
