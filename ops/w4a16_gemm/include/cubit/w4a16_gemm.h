/* Multiplies activations by 4-bit, 8-bit or dense weights: the launch arguments of the operator w4a16_gemm.
 *
 *   product[m, n] = sum over k of activations[m, k] * scales[g, n] * (q[k, n] - zero[g, n]),
 *   g = k / group size rounded down, or g_idx[k]; for format=dense of activations[m, k] * weight[n, k]
 *   output = function(product + bias) + residual
 *
 * Weights are passed as a checkpoint stores them. The descriptor says what the words mean: see <cubit/w4a16_gemm.hpp>.
 * With function=silu_gate the first n / 2 columns are gates and the last n / 2 columns are the up-projection:
 * output[m, j] = silu(product[m, j] + bias[j]) * (product[m, n / 2 + j] + bias[n / 2 + j]) + residual[m, j].
 *
 * With layers=2 and 3 a launch multiplies the same activations by the weights of two or three layers, such as the
 * query, key and value projections. Each layer has the tensors and the number of columns that its checkpoint gives it,
 * and an output row has the columns of all layers side by side. With function=silu_gate layer 1 is the gate and layer 2
 * the up-projection.
 */
#ifndef CUBIT_W4A16_GEMM_H
#define CUBIT_W4A16_GEMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the blocks of a launch share the work. Every choice except the last gives the same bits at every launch. With
 * batch_invariant=true a row's bits are also the same for every m and on every device of an architecture. Each choice,
 * and for split-K each value of `splits`, has its own bits. */
typedef enum cubit_w4a16_decomposition {
  CUBIT_W4A16_AUTOMATIC = 0,     /* cubit decides from m, n, k and the device; for batch_invariant=true from n and k */
  CUBIT_W4A16_DATA_PARALLEL = 1, /* a block computes all of k: no workspace except for reordered activations */
  CUBIT_W4A16_SPLIT_K = 2,       /* blocks share k; the last block adds the partial sums in order. Refused for
                                  * tile_n=224, and in family sm80 for tile_n 64 and 32: a block then has all of k */
  CUBIT_W4A16_STREAM_K = 3,      /* as many blocks as the device holds share all of the work evenly; partial sums are
                                  * added in order. Refused for batch_invariant=true and for tile_n below 256 */
  CUBIT_W4A16_SPLIT_K_ATOMIC = 4 /* as split-K, but atomics add the partial sums in the order in which blocks finish:
                                  * the last bits of fp32 sums differ from run to run. cubit never chooses this by
                                  * itself; only descriptors with atomic_splits=true accept it */
} cubit_w4a16_decomposition;

/* Device pointers belong to the caller and must stay valid until the launch has finished. Addresses are multiples of 16
 * bytes (qzeros: of 4, for bits=8 of 8; qweight: of the descriptor's alignment). Strides from row to row count elements
 * and are multiples of 8 from 0 to 2^30. output_stride is at least a row's columns unless m is 1. All other tensors are
 * dense. With format=awq the descriptor's alignment also divides n / 2, the bytes of a row of qweight, and with
 * function=silu_gate n / 4, where the up-projection columns begin.
 *
 * The workspace of a launch (cubit_launch in <cubit/cubit.h>) begins with counters, which must be zero before the
 * workspace's first use. A workspace serves one launch at a time; otherwise a launch may never end. Partial sums of k
 * follow the counters. For tile_m=64 in family sm90 (the default on sm_90a unless batch_invariant=true), except for
 * format=awq, the workspace also holds a reordered copy of the activations: m rows of k elements, k rounded up to a
 * multiple of 64, of 2 bytes. A launch that asks for stream-K, or for more than one split, is refused if its tiles need
 * more counters than a workspace has; the error names the largest number of tiles. */
typedef struct cubit_w4a16_gemm_arguments {
  size_t size;               /* sizeof(cubit_w4a16_gemm_arguments) */
  const void* activations;   /* [m, k] */
  const void* qweight;       /* int32 words of the format, for k x n weights; NULL for format=dense */
  const void* qzeros;        /* int32 [groups, n / 8], for bits=8 n / 4; NULL for format=symmetric, dense */
  const void* scales;        /* fp16 [groups, n], groups = ceil(k / group size); NULL for format=dense */
  const int32_t* g_idx;      /* activation_order=true: [k] group of each k; a number that is no group, negative ones
                              * too, means the last group. Else not used */
  const void* bias;          /* [n] if the descriptor has a bias, else NULL */
  const void* residual;      /* as output if the descriptor has a residual, else NULL; may be the output */
  void* output;              /* [m, n]; with function=silu_gate [m, n / 2]. Several layers: [m, n + n_2 + n_3], or with
                              * function=silu_gate [m, n] */
  int64_t activation_stride; /* at least 0. Family sm90 (on sm_90a the default for tile_m 32 and 64, and for tile_n
                              * below 256) needs more than 0 unless m is 1; a set then takes another member */
  int64_t residual_stride;   /* at least 0 */
  int64_t output_stride;     /* at least the columns of the output unless m is 1 */
  int32_t m;                 /* rows of activations, at most 2147483391; 0: nothing is launched */
  int32_t n;                 /* columns of the weights, a multiple of 8, for silu_gate of one layer of 16; at most 65535
                              * * tile_n for one layer, and for n + n_2 + n_3 at most 65533 * tile_n */
  int32_t k;                 /* a multiple of 8 from 8 to 2^30. The last group of a k that is no multiple of the group
                              * size is shorter */
  int32_t decomposition;     /* a cubit_w4a16_decomposition */
  int32_t splits; /* for tuning, with split-K of both kinds: blocks that share k, at most 256; 0: cubit decides */
  int32_t groups; /* activation_order=true: rows of scales and of qzeros; 0: ceil(k / group size). A slice of the input
                       * features of a layer has the groups of all of the layer, and g_idx names any of them. Else 0 */
  const void* weight;    /* [n, k] for format=dense, else NULL; the type of the activations */
  int64_t weight_stride; /* for format=dense at least k, or 0: rows are contiguous; else 0 */
  /* layers=2 and 3: the second layer, as qweight, qzeros, scales and bias are of the first. k and g_idx belong to all
   * layers. */
  const void* qweight_2; /* NULL for layers=1, as all that follows */
  const void* qzeros_2;
  const void* scales_2;
  const void* bias_2;
  /* layers=3: the third layer. */
  const void* qweight_3;
  const void* qzeros_3;
  const void* scales_3;
  const void* bias_3;
  int32_t n_2; /* columns of the second layer, a multiple of 8; with function=silu_gate n; for layers=1 0 */
  int32_t n_3; /* columns of the third layer, a multiple of 8; else 0 */
} cubit_w4a16_gemm_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_W4A16_GEMM_H */
