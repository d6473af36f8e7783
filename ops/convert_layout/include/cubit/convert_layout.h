/* Converts a matrix of bytes between row-major order and interleaved layouts: the launch arguments of the operator
 * convert_layout. The formulas of the layouts are in <cubit/matrix_layout.hpp>. */
#ifndef CUBIT_CONVERT_LAYOUT_H
#define CUBIT_CONVERT_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers belong to the caller and must stay valid until the launch has finished. Addresses and strides are
 * multiples of 16 bytes. `output` does not overlap `input`.
 *
 * The stride of a row-major matrix is the distance from row to row. The stride of an interleaved layout is the distance
 * from block of 32 columns to block of 32 columns, at least 32 * rows. */
typedef struct cubit_convert_layout_arguments {
  size_t size;       /* sizeof(cubit_convert_layout_arguments) */
  const void* input; /* row-major: [rows, columns]; else [columns / 32, rows, 32] */
  void* output;      /* the same bytes in the layout `to` */
  int64_t input_stride;
  int64_t output_stride;
  int32_t rows;    /* 0: nothing is launched; a multiple of 8 for col4_4r2_8c and of 32 for col32_2r_4r4 */
  int32_t columns; /* a multiple of 32 */
} cubit_convert_layout_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_CONVERT_LAYOUT_H */
