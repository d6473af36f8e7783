// Warp-level matrix multiply-accumulate (mma.sync) and the register transpose between two products.
//
// Fragments (PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type"), with r = lane / 4 and c = lane %
// 4:
//   A 16 × 16: a0 (r, 2c..), a1 (r+8, 2c..), a2 (r, 2c+8..), a3 (r+8, 2c+8..)      pairs along k
//   B 16 × 8:  b0 (2c.., r), b1 (2c+8.., r)                                         pairs along k
//   C 16 × 8:  c0 (r, 2c), c1 (r, 2c+1), c2 (r+8, 2c), c3 (r+8, 2c+1)
// codegen/fragments.cpp holds the same maps as tables.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// c += a · b with mma.m16n8k8 in fp16, which is half of an m16n8k16 product along k.
__device__ __forceinline__ void mma_m16n8k8(float (&c)[4], uint32 a0, uint32 a1, uint32 b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

/// c += a · b with mma.m16n8k16 and fp32 accumulation. T is Half or, from sm_80 on, Bfloat16. On sm_75 the function
/// issues two m16n8k8 instructions.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], uint32 a0, uint32 a1, uint32 a2, uint32 a3, uint32 b0,
                                             uint32 b1) {
#if __CUDA_ARCH__ < 800
  static_assert(kSameType<T, Half>, "tensor cores before sm_80 multiply no bf16");
  mma_m16n8k8(c, a0, a1, b0);
  mma_m16n8k8(c, a2, a3, b1);
#else
  if constexpr (kSameType<T, Half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
#endif
}

/// Multiplies the columns of m16n8 accumulators by factors. There are kTiles tiles of 8 columns with kBlocks
/// accumulators each; factors[tile] holds the factors of columns 2c and 2c + 1.
template <int kTiles, int kBlocks>
__device__ __forceinline__ void rescale_columns(float (&blocks)[kTiles][kBlocks][4],
                                                const float (&factors)[kTiles][2]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < 4; ++i) blocks[tile][block][i] *= factors[tile][i & 1];
    }
  }
}

/// Transposes an 8 × 8 matrix of 16-bit values. Input and output hold one register per lane: (row r, columns 2c and
/// 2c+1).
__device__ __forceinline__ uint32 transpose_8x8(uint32 pair) {
  uint32 result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
  return result;
}

}  // namespace cubit
