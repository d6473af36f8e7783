/* Multiplies 8-bit activations by 8-bit weights: the launch arguments of the operator w8a8_gemm.
 *
 *   sum[m, n] = sum over k of activations[m, k] * weights[n, k]
 *   value = ((sum - zero point * weight sum[n]) * activation scale) * weight scale
 *   output = function(value + bias) + residual
 *
 * Without zero_points the zero points are 0. An output of 8 bits is round(output / output_scale), half to even and
 * saturated. A second output is round(output / second_scale) of the output as it is stored, from -127 to 127 or from
 * -448 to 448, as quantize with scale=tensor makes it. output=int32 is the sum itself.
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

/* How the blocks of a launch share the work. Sums of int8 are exact, so that no choice changes a bit of the output.
 * Sums of fp8_e4m3 are added in a fixed order, except by atomics. */
typedef enum cubit_w8a8_decomposition {
  CUBIT_W8A8_AUTOMATIC = 0,     /* cubit decides from m, n, k and the device */
  CUBIT_W8A8_DATA_PARALLEL = 1, /* a block computes all of k: no workspace */
  CUBIT_W8A8_SPLIT_K = 2,       /* blocks share k; the last block adds the partial sums in order */
  CUBIT_W8A8_STREAM_K = 3,      /* as many blocks as the device holds share all of the work evenly */
  CUBIT_W8A8_SPLIT_K_ATOMIC = 4 /* as split-K, but atomics add the partial sums in the order in which blocks finish.
                                 * Only descriptors with atomic_splits=true accept it */
} cubit_w8a8_decomposition;

/* Device pointers belong to the caller and must stay valid until the launch has finished. Addresses are multiples of 16
 * bytes. The address of a scale that is one number is a multiple of 4 bytes. Strides from row to row count elements,
 * from 0 to 2^30, and are multiples of 16 bytes; the stride of an 8-bit output is a multiple of 8 bytes. All other
 * tensors are dense.
 *
 * The workspace of a launch (cubit_launch in <cubit/cubit.h>) begins with counters, which must be zero before the
 * workspace's first use. A workspace serves one launch at a time; otherwise a launch may never end. */
typedef struct cubit_w8a8_gemm_arguments {
  size_t size;                    /* sizeof(cubit_w8a8_gemm_arguments) */
  const void* activations;        /* [m, k] int8 or e4m3 */
  const void* weights;            /* [n, k] of the type of the activations; rows are contiguous */
  const float* activation_scales; /* activation_scale=token: [m], tensor: [1]; NULL for output=int32 */
  const float* weight_scales;     /* weight_scale=channel: [n], tensor: [1]; NULL for output=int32 */
  const float* output_scale; /* [1] for an 8-bit output, from 2^-100 to 2^100: another gives 0, or for e4m3 NaN. Else
                              * NULL */
  const void* bias;          /* [n] if the descriptor has a bias, else NULL */
  const void* residual;      /* as output if the descriptor has a residual, else NULL; a 16-bit output may be the
                              * residual */
  void* output;              /* [m, n]; with function=silu_gate [m, n / 2] */
  int64_t activation_stride; /* at least 0; of family sm90_persistent at least 16 unless m is 1 */
  int64_t residual_stride;   /* at least 0 */
  int64_t output_stride;     /* at least the columns of the output unless m is 1 */
  int32_t m;                 /* rows of activations, at most 2147483391; 0: nothing is launched */
  int32_t n;                 /* rows of the weights, a multiple of 8, for silu_gate of 16 */
  int32_t k;                 /* a multiple of 16 from 16 to 131056 */
  int32_t decomposition;     /* a cubit_w8a8_decomposition */
  int32_t splits;            /* for tuning, with split-K of both kinds: blocks that share k, at most 256, in family
                     * sm90_persistent 2; 0: cubit decides */
  int32_t reserved;          /* 0 */
  const int32_t* activation_zeros; /* zero_points: as activation_scales; else NULL */
  const int32_t* weight_sums;      /* zero_points: [n], sum over k of weights[n, k], see <cubit/weight_sums.h>; else
                                    * NULL */
  const float* second_scale;       /* [1] for a second output, from 2^-100 to 2^100: another gives 0, or for e4m3 NaN.
                                    * Else NULL */
  void* second_output;             /* as output, of bytes; NULL without second output */
  int64_t second_stride;           /* at least the columns of the output unless m is 1, a multiple of 8 */
} cubit_w8a8_gemm_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_W8A8_GEMM_H */
