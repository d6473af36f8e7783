/* Turns int8 codes or int32 sums into 16-bit values: the launch arguments of the operator dequantize.
 *
 *   output = function(input * scale * weight_scale + bias) + residual
 *
 * The formula is computed in float, and its result is rounded once to 16 bits, to nearest even. Every output that
 * depends on a NaN in a scale, the bias or the residual is NaN. */
#ifndef CUBIT_DEQUANTIZE_H
#define CUBIT_DEQUANTIZE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers belong to the caller and must stay valid until the launch has finished. Addresses and strides, in
 * bytes, are multiples of 16. The address of `scale`, and with weight_scale=tensor that of `weight_scale`, is a
 * multiple of 4. rows * columns is at most 2^36. `output` does not overlap other tensors, with one exception: `output`
 * may be `residual`, with the same stride. */
typedef struct cubit_dequantize_arguments {
  size_t size;               /* sizeof(cubit_dequantize_arguments) */
  const void* input;         /* [rows, columns]; layout=col32: [columns / 32, rows, 32]; int8 or int32 */
  const float* scale;        /* scale=token: [rows]; scale=tensor: one number */
  const float* weight_scale; /* weight_scale=channel: [columns]; weight_scale=tensor: one number; else NULL */
  const void* bias;          /* bias=true: [columns], of the output's type; else NULL */
  const void* residual;      /* residual=true: [rows, columns], of the output's type; else NULL */
  void* output;              /* [rows, columns], fp16 or bf16 */
  int64_t input_stride;      /* in elements: from row to row; layout=col32: from block of 32 columns to block of 32
                              * columns */
  int64_t residual_stride;   /* from row to row, in elements */
  int64_t output_stride;     /* from row to row, in elements */
  int32_t rows;              /* 0: nothing is launched */
  int32_t columns;           /* a multiple of 16 (input=int32: of 8; layout=col32: of 32) */
} cubit_dequantize_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_DEQUANTIZE_H */
