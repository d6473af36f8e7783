// Converts a matrix of bytes from one layout to another: one pass with 16-byte loads and stores and no shared memory.
//
// Each thread has a patch of four rows and 16 columns, which is four vectors of 16 bytes in every layout
// (quantisation/layout_patches.cuh). If one layout has rows of the patch as vectors and the other layout groups of four
// columns, the thread transposes the patch as a matrix of 4 x 4 words. The kernel runs on all architectures.
//
// PTX ISA: "Data Movement and Conversion Instructions" (ld, st).
#include "plan.cuh"

#include "core/copies.cuh"
#include "core/types.cuh"
#include "kernels/quantisation/convert_layout_arguments.h"
#include "quantisation/layout_patches.cuh"

extern "C" __global__ void __launch_bounds__(plan::kThreads)
    convert_layout(const __grid_constant__ cubit::ConvertLayoutArguments args) {
  using namespace cubit;
  const LayoutPatch patch(static_cast<int64>(blockIdx.x) * plan::kThreads + threadIdx.x, args.blocks);
  uint32 words[kPatchVectors][4];
#pragma unroll
  for (int i = 0; i < kPatchVectors; ++i) {
    load_global<4, 16>(words[i], args.input + plan::From::offset(args.input_stride, patch, i),
                       patch.row(i) < args.rows);
  }
  constexpr bool kTransposes = plan::From::kHoldsRows != plan::To::kHoldsRows;
  uint32 vectors[kPatchVectors][4];
#pragma unroll
  for (int i = 0; i < kPatchVectors; ++i) {
#pragma unroll
    for (int word = 0; word < 4; ++word) vectors[i][word] = kTransposes ? words[word][i] : words[i][word];
  }
  store_patch<plan::To>(args.output, args.output_stride, patch, args.rows, vectors);
}
