// y[r, c] = x[r, c] * scale[r] + addend[r, c] in fp16, rounded once per element.
//
// Each row has one thread block. A thread moves 16 bytes (8 columns) at a time. The kernel uses no shared memory and no
// synchronisation, and runs on every architecture from sm_75. PTX ISA: "Half Precision Floating Point Instructions:
// fma".
#include "core/types.cuh"  // cubit's integers and 16-bit floats
#include "plan.cuh"        // kColumns (a multiple of 8), kThreads
#include "scale_and_add_arguments.h"

namespace {

using cubit::uint32;

struct alignas(16) Words {
  uint32 word[4];  // 8 halves
};

__device__ __forceinline__ uint32 fma_pair(uint32 a, uint32 b, uint32 c) {
  uint32 result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

}  // namespace

extern "C" __global__ __launch_bounds__(plan::kThreads) void scale_and_add(
    const __grid_constant__ ScaleAndAddArguments arguments) {
  constexpr int kVectors = plan::kColumns / 8;
  const long long row = blockIdx.x;
  const uint32 half = static_cast<const cubit::Half*>(arguments.scale)[row].bits;
  const uint32 scale = half | half << 16;
  const Words* x = static_cast<const Words*>(arguments.x) + row * kVectors;
  const Words* addend = static_cast<const Words*>(arguments.addend) + row * kVectors;
  Words* y = static_cast<Words*>(arguments.y) + row * kVectors;
  for (int i = threadIdx.x; i < kVectors; i += plan::kThreads) {
    const Words a = x[i];
    const Words b = addend[i];
    Words sum;
#pragma unroll
    for (int k = 0; k < 4; ++k) sum.word[k] = fma_pair(a.word[k], scale, b.word[k]);
    y[i] = sum;
  }
}
