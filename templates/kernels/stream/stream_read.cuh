// Read floor: reads every byte of a buffer once, with 16-byte streaming loads, 4 in flight per thread. Kernels that
// must read the same bytes are measured against this kernel. It runs on all architectures.
//
// The checksum (exclusive or) makes the loads observable. It is exact in any order, so the result is deterministic.
#include "plan.cuh"

#include "core/types.cuh"
#include "kernels/stream/stream_read_arguments.h"

extern "C" __global__ void __launch_bounds__(plan::kThreads)
    stream_read(const __grid_constant__ cubit::StreamReadArguments args) {
  using namespace cubit;
  constexpr int kInFlight = 4;
  const uint4* source = static_cast<const uint4*>(args.source);
  const int64 quads = args.words / 4;
  const int64 stride = static_cast<int64>(gridDim.x) * plan::kThreads;
  const int64 thread = static_cast<int64>(blockIdx.x) * plan::kThreads + threadIdx.x;
  uint32 sum = 0;
  for (int64 first = thread; first < quads; first += kInFlight * stride) {
    uint4 loaded[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      loaded[i] = first + i * stride < quads ? __ldcs(source + first + i * stride) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) sum ^= loaded[i].x ^ loaded[i].y ^ loaded[i].z ^ loaded[i].w;
  }
  __shared__ uint32 block_sum;
  if (threadIdx.x == 0) block_sum = 0;
  __syncthreads();
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum ^= __shfl_xor_sync(kFullWarp, sum, distance);
  if (threadIdx.x % kWarpSize == 0) atomicXor(&block_sum, sum);
  __syncthreads();
  for (int64 slot = blockIdx.x + static_cast<int64>(threadIdx.x) * gridDim.x; slot < kStreamReadSlots; slot += stride) {
    args.checksums[slot] = slot == blockIdx.x ? block_sum : 0;
  }
}
