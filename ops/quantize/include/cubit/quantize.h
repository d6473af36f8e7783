/* Quantises rows of 16-bit values to int8 or e4m3: the launch arguments of the operator quantize. The formulas are in
 * <cubit/quantisation.h>. */
#ifndef CUBIT_QUANTIZE_H
#define CUBIT_QUANTIZE_H

#include <cubit/quantisation.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The address of `input` and its stride, in bytes, are multiples of 16. */
typedef struct cubit_quantize_arguments {
  size_t size;       /* sizeof(cubit_quantize_arguments) */
  const void* input; /* [rows, columns], fp16 or bf16 */
  cubit_quantised_rows result;
  int64_t input_stride; /* from row to row, in elements */
  int32_t rows;         /* 0: nothing is launched */
  int32_t columns;      /* a multiple of 16 (layout=col32: of 32) from 16 to 65536 */
} cubit_quantize_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_QUANTIZE_H */
