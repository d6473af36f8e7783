/* Multiplies 8-bit activations by 8-bit weights: the launch arguments of the operator w8a8_gemm.
 *
 *   sum[m, n] = sum over k of activations[m, k] * weights[n, k]
 *   value = ((sum - zero point * weight sum[n]) * activation scale) * weight scale
 *   output = function(value + bias) + residual
 *
 * Without zero_points the zero points are 0. An output of 8 bits stores round(output / output_scale), half to even and
 * saturated to -128 … 127 (int8) or -448 … 448 (e4m3). A second output is made of the output as stored in 16 bits:
 * round(output / second_scale), saturated to -127 … 127 or -448 … 448, with the bytes that quantize with scale=tensor
 * gives. output=int32 stores the sum itself.
 *
 * With function=silu_gate the first n / 2 columns are gates and the last n / 2 columns are the up-projection:
 * output[m, j] = silu(value[m, j] + bias[j]) * (value[m, n / 2 + j] + bias[n / 2 + j]) + residual[m, j]. */
#ifndef CUBIT_W8A8_GEMM_H
#define CUBIT_W8A8_GEMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the blocks of a launch share the work. Sums of int8 are exact, so every choice gives the same bits. With fp8_e4m3
 * each choice has its own order of additions, and may give other last bits than another choice. Every choice except the
 * last adds in a fixed order, and gives the same bits at every launch. */
typedef enum cubit_w8a8_decomposition {
  CUBIT_W8A8_AUTOMATIC = 0,     /* cubit decides from m, n, k and the device */
  CUBIT_W8A8_DATA_PARALLEL = 1, /* a block computes all of k: no workspace */
  CUBIT_W8A8_SPLIT_K = 2,       /* several blocks share the k of a tile; partial sums are added in order */
  CUBIT_W8A8_STREAM_K = 3,      /* as many blocks as the device holds share the work evenly; partial sums are added in
                                 * order */
  CUBIT_W8A8_SPLIT_K_ATOMIC = 4 /* as split-K, but atomics add the partial sums in the order in which blocks finish.
                                 * Only descriptors with atomic_splits=true accept it */
} cubit_w8a8_decomposition;

/* Device pointers belong to the caller and must stay valid until the launch has finished. Addresses are multiples of 16
 * bytes. The addresses of activation_scales and activation_zeros, and of every scale that is one number, need only be
 * multiples of 4 bytes. Strides are distances from row to row in elements, from 0 to 2^30. A stride in bytes is a
 * multiple of 16, or of 8 for an 8-bit output or second output. All other tensors are dense.
 *
 * The workspace of a launch (cubit_launch in <cubit/cubit.h>) begins with counters, which must be zero before the
 * workspace's first use. A workspace serves one launch at a time; otherwise a launch may never end. */
typedef struct cubit_w8a8_gemm_arguments {
  size_t size;                    /* sizeof(cubit_w8a8_gemm_arguments) */
  const void* activations;        /* [m, k] int8 or e4m3 */
  const void* weights;            /* [n, k] of the type of the activations; rows are contiguous */
  const float* activation_scales; /* activation_scale=token: [m], tensor: [1]; NULL for output=int32 */
  const float* weight_scales;     /* weight_scale=channel: [n], tensor: [1]; NULL for output=int32 */
  const float* output_scale; /* [1] for an 8-bit output, from 2^-100 to 2^100: with any other scale all int8 outputs are
                              * 0 and all e4m3 outputs NaN. Without an 8-bit output NULL */
  const void* bias;          /* [n] if the descriptor has a bias, else NULL; 16-bit type of output or addend */
  const void* residual;      /* of the shape of output if the descriptor has a residual, else NULL; type as bias. A
                              * 16-bit output may be the residual */
  void* output;              /* [m, n]; with function=silu_gate [m, n / 2] */
  int64_t activation_stride; /* at least 0; in family sm90_persistent at least 16 unless m is 1 */
  int64_t residual_stride;   /* at least 0 */
  int64_t output_stride;     /* at least the columns of the output unless m is 1 */
  int32_t m;                 /* rows of activations, at most 2147483391; 0: nothing is launched */
  int32_t n;                 /* rows of the weights, a multiple of 8, or of 16 for function=silu_gate */
  int32_t k;                 /* a multiple of 16 from 16 to 131056 */
  int32_t decomposition;     /* a cubit_w8a8_decomposition */
  int32_t splits;           /* for tuning, with split-K of both kinds: blocks that share k, at most 256, or at most 2 in
                              * family sm90_persistent. 0: cubit decides */
  int32_t constant_weights; /* 1: a promise that no kernel that may still run when this launch begins writes weights.
                              * An overlapping launch then copies weights before it waits for its predecessor. Else 0 */
  const int32_t* activation_zeros; /* zero_points=true: of the shape of activation_scales; else NULL */
  const int32_t* weight_sums;      /* zero_points=true: [n], sum over k of weights[n, k], see <cubit/weight_sums.h>;
                                    * else NULL */
  const float* second_scale;       /* [1] for a second output, with the range of output_scale. Else NULL */
  void* second_output;             /* bytes, of the shape of output; NULL without a second output */
  int64_t second_stride;           /* for a second output: at least the columns of the output unless m is 1 */
} cubit_w8a8_gemm_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_W8A8_GEMM_H */
