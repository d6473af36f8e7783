// Sums of the rows of signed bytes: one pass with 16-byte loads, a warp for each row. The kernel runs on all
// architectures.
//
// PTX ISA: "dp4a", "shfl.sync".
#include "plan.cuh"

#include "core/copies.cuh"
#include "core/types.cuh"
#include "kernels/quantisation/weight_sums_arguments.h"

extern "C" __global__ void __launch_bounds__(plan::kThreads)
    weight_sums(const __grid_constant__ cubit::WeightSumsArguments args) {
  using namespace cubit;
  constexpr int kOnes = 0x01010101;
  const int64 row = static_cast<int64>(blockIdx.x) * (plan::kThreads / kWarpSize) + warp_index();
  if (row >= args.n) return;
  const char* const src = args.weights + row * args.k;
  int sum = 0;
  for (int at = 16 * lane_index(); at < args.k; at += 16 * kWarpSize) {
    uint32 words[4];
    load_global<4, 16>(words, src + at);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum = __dp4a(static_cast<int>(words[i]), kOnes, sum);
  }
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(kFullWarp, sum, distance);
  if (lane_index() == 0) args.sums[row] = sum;
}
