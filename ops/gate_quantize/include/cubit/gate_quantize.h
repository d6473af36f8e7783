/* Multiplies rows by activated gates and quantises the products: the launch arguments of the operator gate_quantize.
 *
 *   y = function(gate) * up, rounded to 16 bits
 *   result = y, quantised as <cubit/quantisation.h> says
 *
 * function: silu(x) = x / (1 + e^-x); gelu(x) = x (1 + erf(x / sqrt(2))) / 2; gelu_tanh(x) = x (1 + tanh(sqrt(2 / pi)
 * (x + 0.044715 x^3))) / 2. */
#ifndef CUBIT_GATE_QUANTIZE_H
#define CUBIT_GATE_QUANTIZE_H

#include <cubit/quantisation.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A GEMM whose output has all gates before all up-projections gives gate = output and up = output + columns, both with
 * the stride 2 * columns. Addresses and strides of gate and up, in bytes, are multiples of 16. */
typedef struct cubit_gate_quantize_arguments {
  size_t size;      /* sizeof(cubit_gate_quantize_arguments) */
  const void* gate; /* [rows, columns], fp16 or bf16 */
  const void* up;   /* [rows, columns], of the same type */
  cubit_quantised_rows result;
  int64_t gate_stride; /* from row to row, in elements */
  int64_t up_stride;
  int32_t rows;    /* 0: nothing is launched */
  int32_t columns; /* a multiple of 16 (layout=col32: of 32) from 16 to 32768 */
} cubit_gate_quantize_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_GATE_QUANTIZE_H */
