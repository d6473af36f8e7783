/* Merges partial results of attention by their log-sum-exp: the launch arguments of the operator merge.
 *
 *   output[r, h] = sum over p of w[p] * partial_outputs[p, r, h] / sum over p of w[p]
 *   lse[r, h]    = log(sum over p of w[p]),   w[p] = exp(partial_lse[p, r, h])
 *
 * A part p is attention of the same queries over keys of its own: a shared prefix or what follows it, a level of a
 * cascade, or one split of a sequence. The result is attention over the keys of all parts. Logarithms are natural, as
 * gqa_decode writes them. FlashInfer writes logarithms of base 2: multiply those by ln 2. All numbers are computed in
 * float, and the same inputs give the same bits.
 *
 * A part with partial_lse = -inf is empty: the part adds nothing, and the kernel ignores its partial output. If all
 * parts are empty, the output is 0 and lse is -inf. If a partial_lse is +inf or NaN, the head's output and lse are NaN.
 * An infinity or NaN in the output of a part that is not empty gives an infinity or NaN in that channel.
 */
#ifndef CUBIT_MERGE_H
#define CUBIT_MERGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers belong to the caller and must stay valid until the launch has finished. Strides count elements; the
 * last dimension of partial_outputs and output is contiguous. The descriptor fixes head_dim and both types: see
 * <cubit/merge.hpp>. Addresses and strides of partial_outputs and output, in bytes, are multiples of 16. If one type is
 * float and the other has 16 bits, 8 bytes are enough for the tensor of 16 bits.
 *
 * output may be one part of partial_outputs if both have the same type and strides. All other tensors that are written
 * do not overlap tensors that are read. Strides of output and lse may be negative. Heads must not overwrite one
 * another: the magnitude of a stride is at least what smaller strides span. */
typedef struct cubit_merge_arguments {
  size_t size;                       /* sizeof(cubit_merge_arguments) */
  const void* partial_outputs;       /* [parts, rows, heads, head_dim] */
  const float* partial_lse;          /* [parts, rows, heads] */
  void* output;                      /* [rows, heads, head_dim] */
  float* lse;                        /* [rows, heads], or NULL */
  int64_t partial_output_strides[3]; /* part, row, head */
  int64_t partial_lse_strides[3];    /* part, row, head */
  int64_t output_strides[2];         /* row, head */
  int64_t lse_strides[2];            /* row, head; read only if lse is given */
  int32_t parts;                     /* 1 to 2147483644 */
  int32_t rows;                      /* queries of all sequences, or of one; 0: nothing is launched */
  int32_t heads;                     /* query heads, at least 1; rows * heads * head_dim below 2^33 */
  int32_t reserved;                  /* 0 */
} cubit_merge_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_MERGE_H */
