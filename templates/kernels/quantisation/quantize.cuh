// Quantises 16-bit rows to int8 or e4m3: one pass that keeps each row in registers from the load to the store.
//
//   row of 4096 columns | 128 threads: thread t has columns 16 t … and 2048 + 16 t …      one block
//   row of 512 columns  | 32 threads: thread t has columns 16 t …                          a quarter of a block
//
// A thread loads its vectors of 16 columns, 32 bytes each, before it uses the first one. The largest magnitude of a row
// is a maximum of bits: shuffles within a warp, and an exchange of one number per warp through shared memory with one
// barrier. A given scale needs neither. Each vector is stored with one 16-byte store. The kernel runs on all
// architectures.
//
// PTX ISA: "Data Movement and Conversion Instructions" (ld, st, shfl, cvt), "Parallel Synchronization" (bar.sync).
#include "plan.cuh"

#include "kernels/quantisation/quantize_arguments.h"
#include "quantisation/quantise_row.cuh"

extern "C" __global__ void __launch_bounds__(plan::kMostThreads)
    quantize(const __grid_constant__ cubit::QuantizeArguments args) {
  using namespace cubit;
  const RowThreads threads(args.shape);
  RowValues<plan::Input> row;
  row.load(args.input + threads.row() * args.input_stride, threads);
  quantise_row<plan::Scaling, plan::Layout>(args.result, row, threads);
}
