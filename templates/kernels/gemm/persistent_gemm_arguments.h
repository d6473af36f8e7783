// Argument of the persistent GEMM kernel, shared by host and device. Strides are in bytes. Tensor maps follow the
// argument: see sm90_persistent_gemm.cuh.
#pragma once

namespace cubit {

struct PersistentGemmArguments {
  const void* scales;    // [groups][n] fp16; weight formats with groups
  const void* qzeros;    // [groups][n / 8] words; not read if zeros are not stored
  const void* bias;      // [n]; read only if the epilogue has a bias
  const void* residual;  // [m][outputs]; read only if the epilogue has a residual
  long long residual_stride;
  // The output, if its outputs are bytes and its rows are no multiple of 16 bytes, which a tensor map needs. Else null.
  void* unmapped_output;
  long long output_stride;  // of unmapped_output
  int m;                    // tokens
  int n;                    // columns of the weights
  int groups;
  int slabs;          // pipeline stages of all of k; the last one may be a tail
  int token_tiles;    // tiles along tokens
  int feature_tiles;  // tiles along features, of one cluster each
  int tile_group;     // token tiles of a group of tiles: see grouped_tiles.cuh
  // Nonzero: the two blocks of a cluster compute one tile of 128 features and divide k: the first block has this many
  // slabs. Zero: the two blocks compute neighbouring tiles and share the activations.
  int split_slabs;
  // Stream-K: the first `whole_tiles` tiles are computed whole, one by one; all later tiles have `units` units of
  // kUnitSlabs slabs each, which form one sequence that is divided among the clusters. A cluster has `share` units, or
  // one more if its index is below `larger`. With share = 0 all tiles are whole.
  int share;
  int larger;
  int units;
  long long whole_tiles;
  // Nonzero: the caller promises that no kernel that may still run writes the weights. Copies of weights then start
  // before the kernel waits for its predecessor.
  int constant_weights;
  unsigned* flags;  // [clusters][2 blocks][kConsumerWarps], zero before and after a launch
  float* partials;  // [clusters][2 blocks][tokens / 8 of a tile][kConsumerWarps][32 lanes][4]
};

/// With activation order.
struct PersistentOrderedArguments : PersistentGemmArguments {
  const unsigned* g_idx;  // [k] group of each k
  int k;
};

}  // namespace cubit
