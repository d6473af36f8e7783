// RMSNorm or LayerNorm of 16-bit rows, after an optional residual is added, and quantisation of the result: one pass
// that keeps each row in registers.
//
//   row of 4096 columns | 128 threads: thread t has columns 16 t … and 2048 + 16 t …      one block
//
// Steps of a row, each on registers: load; add the residual, round and store the sum; reduce the statistics; multiply
// by the weight and round to 16 bits; find the scale; store. RMSNorm needs one reduction before the scale. LayerNorm
// needs two, for the mean and for the squares of the differences from the mean. The result therefore has the bytes that
// the operators would give one after another: norm with output=unquantised, then quantize. The weight is the same for
// all rows and comes from the L1 or L2 cache. The kernel runs on all architectures.
//
// PTX ISA: "Data Movement and Conversion Instructions" (ld, st, shfl, cvt), "Floating Point Instructions" (sqrt, div),
// "Parallel Synchronization" (bar.sync).
#include "plan.cuh"

#include "kernels/quantisation/norm_quantize_arguments.h"
#include "quantisation/quantise_row.cuh"
#include "quantisation/row_norm.cuh"

// Left to itself, ptxas aims at 64 registers, with which some kernels that add a bias spill.
extern "C" __global__ void __launch_bounds__(plan::kMostThreads, plan::kAddsBias ? 1 : 0)
    norm_quantize(const __grid_constant__ cubit::NormQuantizeArguments args) {
  using namespace cubit;
  const RowThreads threads(args.shape);
  RowValues<plan::Input> row;
  const char* const input = args.input + threads.row() * args.input_stride;
  if constexpr (!plan::kAddsResidual) {
    row.load(input, threads);
  } else {
    const char* const residual = args.residual + threads.row() * args.residual_stride;
    row.load_writable(input, threads);
#pragma unroll
    for (int i = 0; i < kRowVectors; ++i) {
      if (!threads.has(i)) continue;
      RowVector<plan::Input> other;
      other.load_writable(residual + 2 * threads.column(i), true);
      combine_vector(row.vectors[i], other, [](float x, float y) { return x + y; });
    }
    store_row(args.sum + threads.row() * args.sum_stride, row, threads);
  }
  normalise_row<plan::kAddsBias>(row, plan::Norm::of(row, threads, args.epsilon), args.weight, args.bias, threads);
  quantise_row<plan::Scaling, plan::Layout>(args.result, row, threads);
}
