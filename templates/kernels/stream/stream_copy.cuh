// Copy floor: reads every byte of a buffer once and writes it once, with 16-byte streaming loads and stores, 4 in
// flight per thread. Kernels that must move the same bytes are measured against this kernel. It runs on all
// architectures.
#include "plan.cuh"

#include "core/types.cuh"
#include "kernels/stream/stream_copy_arguments.h"

extern "C" __global__ void __launch_bounds__(plan::kThreads)
    stream_copy(const __grid_constant__ cubit::StreamCopyArguments args) {
  using namespace cubit;
  constexpr int kInFlight = 4;
  const uint4* source = static_cast<const uint4*>(args.source);
  uint4* destination = static_cast<uint4*>(args.destination);
  const int64 stride = static_cast<int64>(gridDim.x) * plan::kThreads;
  const int64 thread = static_cast<int64>(blockIdx.x) * plan::kThreads + threadIdx.x;
  for (int64 first = thread; first < args.quads; first += kInFlight * stride) {
    uint4 loaded[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * stride < args.quads) loaded[i] = __ldcs(source + first + i * stride);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * stride < args.quads) __stcs(destination + first + i * stride, loaded[i]);
    }
  }
}
