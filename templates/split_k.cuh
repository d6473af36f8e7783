// Work split of a GEMM: which stages of k a block takes, and how the partial sums of its splits become one.
//
// k of n stages is dealt out evenly to min(splits, n) blocks; the others have nothing to do. Every warp of a split stores its
// sums; the one that is last at their counter reads all of them in order of their split, so the result does not depend on who
// was last, and sets the counter back to zero.
//
// PTX ISA, "Memory Consistency Model": bar.warp.sync orders a warp's stores before its atom.acq_rel, whose observation by the
// last warp orders them before that warp's loads.
#pragma once

#include "types.cuh"

namespace cubit {

struct Share {
  int first;  // stage
  int last;   // one past
};

__device__ __forceinline__ Share share_of(int stages, int splits, int split) {
  // The first stages % splits have one more.
  const int least = static_cast<int>(static_cast<uint32>(stages) / static_cast<uint32>(splits));
  const int extra = stages - least * splits;
  const int first = split * least + min(split, extra);
  return {first, first + least + (split < extra ? 1 : 0)};
}

/// Called by all lanes after their stores. True in all lanes of the warp that arrives last; the counter is then zero again, and
/// what the others stored can be read.
__device__ __forceinline__ bool last_warp(uint32* counter, int arrivals) {
  __syncwarp();
  uint32 before = 0;
  if (lane_index() == 0) {
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    if (before == static_cast<uint32>(arrivals) - 1) *counter = 0;
  }
  before = __shfl_sync(kFullWarp, before, 0);
  return before == static_cast<uint32>(arrivals) - 1;
}

/// Loads of partial sums that other blocks have stored: past the L1 cache, which is not coherent.
__device__ __forceinline__ float4 load_partial4(const char* src) {
  float4 value;
  asm volatile("ld.volatile.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(src)
               : "memory");
  return value;
}

/// sum += parts 0 … count - 1, in order. `load(part, i)` gives four elements of sum[i]; the loads of kAtOnce parts are in flight
/// together. Lanes without `has_rows` load nothing.
template <int kAtOnce, class Load>
__device__ __forceinline__ void add_parts(float (&sum)[2][4], int count, bool has_rows, Load&& load) {
#pragma unroll 1
  for (int first = 0; first < count; first += kAtOnce) {
    float4 parts[kAtOnce][2];
#pragma unroll
    for (int i = 0; i < 2 * kAtOnce; ++i) {
      parts[i / 2][i % 2] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (has_rows && first + i / 2 < count) parts[i / 2][i % 2] = load(first + i / 2, i % 2);
    }
#pragma unroll
    for (int i = 0; i < 2 * kAtOnce; ++i) {
      float(&part)[4] = sum[i % 2];
      part[0] += parts[i / 2][i % 2].x;
      part[1] += parts[i / 2][i % 2].y;
      part[2] += parts[i / 2][i % 2].z;
      part[3] += parts[i / 2][i % 2].w;
    }
  }
}

}  // namespace cubit
