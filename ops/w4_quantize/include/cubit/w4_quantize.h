/* Rounds weights to 4 bits on the device: the launch arguments of the operator w4_quantize.
 *
 * A group has the weights w of one output feature n and as many input features k as the group size. The
 * last group of a k that is no multiple of the group size is shorter. All formulas are
 * computed in float, and halves are rounded to even:
 *   scheme=asymmetric  lowest = min(w, 0), highest = max(w, 0). format=gptq cannot store a zero of 0 and therefore uses
 *                      min(lowest, -highest * float(1 / 14)) as lowest.
 *                      scale = fp16((highest - lowest) / 15)
 *                      zero = round(-lowest / scale) clamped to 0 (gptq: 1) ... 15
 *   scheme=symmetric   scale = fp16(2 max|w| / 15), zero = 8; format=symmetric stores no zeros
 *   q = clamp(round(w / scale) + zero, 0, 15)
 * The scale is clamped to 2^-24 ... 65504, and all later steps use the scale as it is stored. The error of a
 * weight is |w - (q - zero) scale|. If a weight of a group is an infinity or NaN, the group's scale is NaN (0x7e00),
 * its q are 0, its zero is the least that the format has (scheme=symmetric: 8), and its errors are NaN.
 *
 * w4a16_gemm takes qweight, qzeros and scales for the same format and group size; see <cubit/w4a16_gemm.hpp>.
 */
#ifndef CUBIT_W4_QUANTIZE_H
#define CUBIT_W4_QUANTIZE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers belong to the caller and must stay valid until the launch has finished. Addresses are multiples of 16
 * bytes; qzeros, and qweight for format=awq, of 4. Tensors that are written are dense, and overlap neither the weights
 * nor one another. */
typedef struct cubit_w4_quantize_arguments {
  size_t size;           /* sizeof(cubit_w4_quantize_arguments) */
  const void* weights;   /* [n, k] as a linear layer has them: the weights of one output feature are contiguous */
  void* qweight;         /* int32 words of the format: [k / 8, n]; for awq [k, n / 8] */
  void* qzeros;          /* int32 [ceil(k / group size), n / 8]; NULL for format=symmetric */
  void* scales;          /* fp16 [ceil(k / group size), n] */
  float* max_error;      /* as scales: largest error of each group's weights, or NULL */
  float* rms_error;      /* as scales: root mean square of each group's errors (infinite for errors beyond
                          * about 1e19), or NULL */
  int64_t weight_stride; /* from output feature to output feature in elements, a multiple of 8 */
  int32_t n;             /* output features, a multiple of 8; 0: nothing is launched; at most 2097120 */
  int32_t k;             /* input features, a multiple of 8 from 8 to 2^30 */
} cubit_w4_quantize_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_W4_QUANTIZE_H */
