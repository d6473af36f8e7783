/* Adds up each row of int8 weights: the launch arguments of the operator weight_sums.
 *
 *   sums[n] = sum over k of weights[n, k]
 *
 * w8a8_gemm with zero_points=true reads these sums. The sums depend on the weights alone, so one launch after loading
 * the weights is enough. */
#ifndef CUBIT_WEIGHT_SUMS_H
#define CUBIT_WEIGHT_SUMS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers belong to the caller and must stay valid until the launch has finished. The address of `weights` is a
 * multiple of 16 bytes, and that of `sums` a multiple of 4; w8a8_gemm needs `sums` at a multiple of 16. */
typedef struct cubit_weight_sums_arguments {
  size_t size;         /* sizeof(cubit_weight_sums_arguments) */
  const void* weights; /* [n, k] int8, dense */
  int32_t* sums;       /* [n], written */
  int32_t n;           /* rows of the weights; 0: nothing is launched */
  int32_t k;           /* values of a row, a multiple of 16 from 16 to 131056 */
} cubit_weight_sums_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_WEIGHT_SUMS_H */
