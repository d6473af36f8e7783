/* Quantised rows: a struct that launch arguments of several operators contain, and the formulas of quantisation.
 *
 * All formulas are computed in float, halves are rounded to even, and results are saturated. `most` is 127 for int8 and
 * 448 for e4m3 (e4m3fn: four exponent bits, no infinity):
 *   scale=token, scheme=symmetric   scale = max(max|x| of the row / most, 1e-8)
 *                                   q = round(x / scale)
 *   scale=token, scheme=asymmetric  lowest = min(x, 0) and highest = max(x, 0) of the row; int8 only
 *                                   scale = max(highest / 255 - lowest / 255, 1e-8)
 *                                   zero point = round(-128 - lowest / scale), from -128 to 127
 *                                   q = round(x / scale + zero point), from -128 to 127
 *   scale=tensor                    the scale is given; q = round(x / scale), from -most to most
 * The value of a result is q * scale, or (q - zero point) * scale. output=unquantised stores x itself.
 *
 * Values that are not finite: scale=token writes the quiet NaN 0x7fc00000 as the scale of such a row, and 0 as its
 * bytes and zero point. With scale=tensor, int8 stores 0 for NaN and +-127 for an infinity, and e4m3 stores its NaN
 * code 0x7f for both. A given scale must be from 2^-100 to 2^100. A kernel treats any other scale as NaN: all results
 * are 0 (int8) or the NaN code (e4m3).
 *
 * Equal x give equal bytes on every architecture. The x of norm_quantize and gate_quantize are themselves computed, and
 * may differ between architectures. */
#ifndef CUBIT_QUANTISATION_H
#define CUBIT_QUANTISATION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers belong to the caller and must stay valid until the launch has finished. The address of `output` and
 * the stride, in bytes, are multiples of 16; the other addresses are multiples of 4. Tensors of this struct that are
 * written overlap neither the operator's inputs nor one another. With output=unquantised, `scale`, `scales` and
 * `zero_points` are NULL. */
typedef struct cubit_quantised_rows {
  void* output;          /* [rows, columns]; layout=col32: [columns / 32, rows, 32] */
  const float* scale;    /* scale=tensor: one number, which is read; else NULL */
  float* scales;         /* scale=token: [rows], written; else NULL */
  int32_t* zero_points;  /* scheme=asymmetric: [rows], written; else NULL */
  int64_t output_stride; /* in elements: from row to row; layout=col32: from block of 32 columns to block of 32 columns,
                          * at least 32 * rows */
} cubit_quantised_rows;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_QUANTISATION_H */
