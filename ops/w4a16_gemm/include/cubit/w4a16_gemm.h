/* Weight-only 4-bit and 8-bit matrix multiplication: the launch arguments of the operator w4a16_gemm.
 *
 *   product[m, n] = sum over k of activations[m, k] * scales[g, n] * (q[k, n] - zero[g, n]),
 *   g = k / group size, or g_idx[k]
 *   output = function(product + bias) + residual
 *
 * Weights are taken as a checkpoint stores them; what the words mean is the descriptor's business: see
 * <cubit/w4a16_gemm.hpp>. With function=silu_gate the first n / 2 columns are gates and the others what they are for:
 * output[m, j] = silu(product[m, j] + bias[j]) * (product[m, n / 2 + j] + bias[n / 2 + j]) + residual[m, j].
 */
#ifndef CUBIT_W4A16_GEMM_H
#define CUBIT_W4A16_GEMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the blocks of a launch share the work. Every choice but the last gives the same bits at every launch; for
 * batch_invariant=true also the same bits of a row whatever m is and on every device of an architecture, with each
 * choice (split-K: each `splits`) its own. */
typedef enum cubit_w4a16_decomposition {
  CUBIT_W4A16_AUTOMATIC = 0,     /* cubit decides, from m, n, k and the device; for batch_invariant=true from n and k */
  CUBIT_W4A16_DATA_PARALLEL = 1, /* a block has all of k: no workspace but for reordered activations */
  CUBIT_W4A16_SPLIT_K = 2,  /* blocks share k; the last one adds their sums in order. Refused for tile_n=224, and for
                              64 and 32 in family sm80, where a block has all of k */
  CUBIT_W4A16_STREAM_K = 3, /* as many blocks as the device holds share all of the work evenly; likewise. Refused for
                               batch_invariant=true, and for tile_n below 256 */
  CUBIT_W4A16_SPLIT_K_ATOMIC = 4 /* as split-K, with sums added by atomics in the order in which blocks come: the last
                                    bits of fp32 sums differ from run to run. Never chosen by cubit; for descriptors
                                    with atomic_splits=true alone */
} cubit_w4a16_decomposition;

/* What a workspace holds behind its counters, which must be zero before its first use, and serve one launch at a
 * time, or a launch may never end: sums of parts of k; and for tile_m=64 in family sm90 (the default on sm_90a, but
 * for batch_invariant=true), unless format=awq, the activations once more in another order: m rows of k elements,
 * rounded up to a multiple of 64, of 2 bytes. */

/* Device pointers, owned by the caller, valid until the launch has finished, multiples of 16 bytes (qzeros: of 4, for
 * bits=8 of 8; qweight: of the descriptor's alignment). Strides from row to row in elements, multiples of 8 from 0 to
 * 2^30, output_stride at least a row's columns unless m is 1; all other tensors are dense. */
typedef struct cubit_w4a16_gemm_arguments {
  size_t size;               /* sizeof(cubit_w4a16_gemm_arguments) */
  const void* activations;   /* [m, k] */
  const void* qweight;       /* int32 words of the format, for k x n weights */
  const void* qzeros;        /* int32 [k / group size, n / 8], for bits=8 n / 4; NULL for format=symmetric */
  const void* scales;        /* fp16 [k / group size, n], finite */
  const int32_t* g_idx;      /* [k] group of each k, clamped, for activation_order=true; else not used */
  const void* bias;          /* [n] where the descriptor has one, else NULL */
  const void* residual;      /* as output where the descriptor has one, else NULL; may be the output */
  void* output;              /* [m, n]; with function=silu_gate [m, n / 2] */
  int64_t activation_stride; /* at least 0; family sm90 (on sm_90a the default of tile_m 32 and 64, and of tile_n below
                            256): more, unless m is 1 */
  int64_t residual_stride;
  int64_t output_stride;
  int32_t m;             /* rows of activations, at most 2147483583; 0: nothing is launched */
  int32_t n;             /* columns of the weights, a multiple of 8; with function=silu_gate of 16; at most 16776960 */
  int32_t k;             /* a multiple of the group size, of 8 where one group is all of k; at least 1, at most 2^30 */
  int32_t decomposition; /* a cubit_w4a16_decomposition */
  int32_t splits; /* for tuning, with split-K of both kinds: blocks that share k, at most 256; 0: cubit decides */
} cubit_w4a16_gemm_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_W4A16_GEMM_H */
