/* Normalises rows of 16-bit values and quantises the result: the launch arguments of the operator norm_quantize.
 *
 *   s = input + residual, rounded to 16 bits (residual=true), else s = input
 *   y = (s - mean) / sqrt(variance + epsilon) * weight + bias     norm=layer
 *   y = s / sqrt(mean of s^2 + epsilon) * weight + bias           norm=rms
 *   result = y rounded to 16 bits, then quantised as <cubit/quantisation.h> says
 *
 * All sums are computed in float, in an order that depends only on the descriptor, the sizes and the device. To smooth
 * activations for quantisation (SmoothQuant), divide the weight and the bias by the factors beforehand. If a row of s
 * has a value that is not finite, or if the row's sum of s^2 (norm=layer: of (s - mean)^2) overflows float, all y of
 * this row are NaN. */
#ifndef CUBIT_NORM_QUANTIZE_H
#define CUBIT_NORM_QUANTIZE_H

#include <cubit/quantisation.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Addresses and strides of the 16-bit tensors, in bytes, are multiples of 16. */
typedef struct cubit_norm_quantize_arguments {
  size_t size;          /* sizeof(cubit_norm_quantize_arguments) */
  const void* input;    /* [rows, columns], fp16 or bf16, as all tensors but those of `result` */
  const void* residual; /* residual=true: [rows, columns]; else NULL */
  void* sum;            /* residual=true: [rows, columns], written: s; may be `residual` or `input` with its stride */
  const void* weight;   /* [columns] */
  const void* bias;     /* bias=true: [columns]; else NULL */
  cubit_quantised_rows result;
  int64_t input_stride;    /* from row to row, in elements, as all strides */
  int64_t residual_stride; /* read with residual=true only */
  int64_t sum_stride;      /* read with residual=true only */
  int32_t rows;            /* 0: nothing is launched */
  int32_t columns;         /* a multiple of 16 (layout=col32: of 32) from 16 to 32768 */
  float epsilon;           /* a positive normal float: from 2^-126 to 3.4e38 */
  int32_t reserved;        /* 0 */
} cubit_norm_quantize_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_NORM_QUANTIZE_H */
