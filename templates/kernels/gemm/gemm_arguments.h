// Argument of the GEMM kernels, shared by host and device: sizes, strides in bytes, operands and workspace.
//
// A weight operand adds what else it reads in a struct that is derived from GemmArguments: see weight_format/.
#pragma once

namespace cubit {

struct GemmArguments {
  const void* activations;  // [m, k]
  const void* weights;      // as the weight operand describes them
  const void* scales;       // of the weights, as the scaling role or the weight operand describes them
  const void* bias;         // [n]; read only if the epilogue has a bias
  const void* residual;     // [m, output columns]; read only if the epilogue has a residual
  void* output;
  // Split-K counters, zero before and after a launch; unused without splits. Each tile has one counter per warp. With a
  // gated epilogue a tile has one counter per pair of gate and up-projection warps. Narrow blocks of family sm90 have
  // one counter per 8 rows of a strip. The atomic and the cluster merge use more, see their functions.
  unsigned* counters;
  // Partial sums [column tiles][row tiles][splits][accumulators of a block]; the atomic merge has no [splits].
  float* partial;
  long long activation_stride;
  long long residual_stride;
  long long output_stride;
  int m;
  int n;  // columns of the weights
  int k;
  int stages;  // pipeline stages of all of k; the last one may be a tail
  // Places for the partial sums of a tile. Without a balanced schedule also the number of split-K slices: gridDim.z.
  int splits;
  int split_stages;  // stages / splits, rounded down
  int row_tiles;
  // Balanced schedule (stream-K): the stages of all tiles form one sequence. Block b takes `share` stages of the
  // sequence, and one more if b < `larger`.
  int share;   // stages per block; 0: a block has one tile, named by its index
  int larger;  // number of blocks with an additional stage
  // Nonzero: cluster split-K of family sm90. Two neighbouring slices form a 2-CTA cluster; gridDim is (splits, column
  // tiles, row tiles).
  int clustered;
  // Batch invariance: if nonzero, block b computes tiles b, b + gridDim.x, … of this many tiles, each with all its
  // split-K slices. If 0, several blocks share a tile.
  long long whole_tiles;
  // Family sm90, activations that the launch reorders once; see reordered_activations.cuh.
  void* reordered;         // [m, k rounded up to 64]
  unsigned* slice_states;  // [slices + 2] words, zero before and after a launch
  long long reordered_stride;
  int slices;         // number of reorder slices
  int slice_chunks;   // chunks per reorder slice, rounded down
  int larger_slices;  // number of reorder slices with an additional chunk
  // Kernels with AtomicSplitKScheduler: if nonzero, partial sums are added in order of arrival.
  int adds_atomically;
};

}  // namespace cubit
