// Gated activation of 16-bit rows, function(gate) · up, and quantisation of the product: one pass that keeps each row
// of products in registers.
//
//   row of 4096 columns | 128 threads: thread t has columns 16 t … and 2048 + 16 t …      one block
//
// The products are rounded to 16 bits before the scale is found. The result therefore has the bytes that the operators
// would give one after another: gate_quantize with output=unquantised, then quantize. The kernel runs on all
// architectures.
//
// PTX ISA: "Data Movement and Conversion Instructions" (ld, st, shfl, cvt), "Floating Point Instructions" (ex2, rcp),
// "Parallel Synchronization" (bar.sync).
#include "plan.cuh"

#include "gemm/activation_functions.cuh"
#include "kernels/quantisation/gate_quantize_arguments.h"
#include "quantisation/quantise_row.cuh"

extern "C" __global__ void __launch_bounds__(plan::kMostThreads)
    gate_quantize(const __grid_constant__ cubit::GateQuantizeArguments args) {
  using namespace cubit;
  const RowThreads threads(args.shape);
  RowValues<plan::Input> row;
  const char* const gates = args.gate + threads.row() * args.gate_stride;
  const char* const ups = args.up + threads.row() * args.up_stride;
  // The branch keeps the compiler from loading the next vectors before this vector has become products.
#pragma unroll
  for (int i = 0; i < kRowVectors; ++i) {
    if (!threads.has(i)) continue;
    RowVector<plan::Input> up;
    row.vectors[i].load(gates + 2 * threads.column(i), true);
    up.load(ups + 2 * threads.column(i), true);
    combine_vector(row.vectors[i], up, [](float x, float y) { return plan::Function::apply(x) * y; });
  }
  quantise_row<plan::Scaling, plan::Layout>(args.result, row, threads);
}
