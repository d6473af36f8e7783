// The one argument of the w4a16_gemm kernels, shared by host and device. Strides in bytes.
#pragma once

namespace cubit {

struct W4a16GemmArguments {
  const void* activations;  // [m, k]
  const void* qweight;      // words: see the number format's header
  const void* qzeros;       // [k / group, n / 8] words; not read where zeros are not stored
  const void* scales;       // [k / group, n] fp16
  const unsigned* g_idx;    // [k] group of each k; not read where the plan has no activation order
  const void* bias;         // [n]; not read where the plan has none
  const void* residual;     // [m, columns of the output]; likewise
  void* output;
  unsigned*
      counters;    // per block of columns and rows one for each warp, gated for each two, of family sm90's teams for
                   // each 8 rows of a strip; zero before and after; unused without splits
  float* partial;  // [blocks of columns][blocks of rows][splits][accumulators of a block], added atomically without
                   // [splits]
  long long activation_stride;
  long long residual_stride;
  long long output_stride;
  int m;
  int n;  // columns of the weights
  int k;
  int stages;        // of all of k, the last one perhaps in part
  int splits;        // places for partial sums of a tile; without shares the blocks that share its stages: gridDim.z
  int split_stages;  // stages / splits, rounded down
  int row_tiles;
  // Shares (stream-K): the stages of all tiles stand in a row, of which block b has `share`, and one more if b <
  // `larger`.
  int share;      // 0: a block has stages of one tile, which its index names
  int larger;     // blocks
  int clustered;  // family sm90: two parts that follow each other are a cluster; gridDim is (splits, columns, rows)
  // Turns (batch invariance): of this many tiles block b has b, b + gridDim.x, …, each with all its parts; 0: blocks
  // share tiles.
  long long whole_tiles;
  // Family sm90, activations that are put in order once, see reordered_activations.cuh.
  void* reordered;         // [m, k rounded up to 64]
  unsigned* slice_states;  // [slices + 2], zero before and after
  long long reordered_stride;
  int slices;
  int slice_chunks;   // of each, rounded down
  int larger_slices;  // the first ones, which have one more
  // Of kernels with AtomicSplitKScheduler: sums of parts are added in the order in which they come.
  int adds_atomically;
};

}  // namespace cubit
