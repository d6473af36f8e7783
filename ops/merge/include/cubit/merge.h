/* Partial results of attention merged by their log-sum-exp: the launch arguments of the operator merge.
 *
 *   output[r, h] = sum over p of w[p] * partial_outputs[p, r, h] / sum over p of w[p]
 *   lse[r, h]    = log(sum over p of w[p]),   w[p] = exp(partial_lse[p, r, h])
 *
 * which is attention over the keys of all parts, where each part is attention over keys of its own (a shared prefix and
 * what follows it, the levels of a cascade, the splits of a sequence). Logarithms are natural ones, as gqa_decode
 * writes them; FlashInfer's have base 2: multiply those by ln 2. All is computed in float, and the same inputs give the
 * same bits.
 *
 * A part with partial_lse = -inf is empty: it adds nothing, and what its partial output holds is not looked at. Where
 * all parts are empty the output is 0 and lse is -inf. Where a partial_lse is +inf or NaN, the head's output and lse
 * are NaN. An infinity or NaN in the output of a part that is not empty gives an infinity or NaN in that channel.
 */
#ifndef CUBIT_MERGE_H
#define CUBIT_MERGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers, owned by the caller, valid until the launch has finished. Strides in elements; the last dimension of
 * partial_outputs and output is contiguous. Addresses and strides of partial_outputs and output are, in bytes,
 * multiples of 16; where one of both types is float and the other has 16 bits, those of the latter are multiples of 8.
 * Of the descriptor: head_dim and both types; see <cubit/merge.hpp>. output may be a part of partial_outputs of the
 * same type and strides; else what is written lies apart from what is read. Strides of output and lse may be negative,
 * but none is so small that heads overwrite one another: its magnitude is at least what smaller ones span. */
typedef struct cubit_merge_arguments {
  size_t size;                       /* sizeof(cubit_merge_arguments) */
  const void* partial_outputs;       /* [parts, rows, heads, head_dim] */
  const float* partial_lse;          /* [parts, rows, heads] */
  void* output;                      /* [rows, heads, head_dim] */
  float* lse;                        /* [rows, heads], or NULL */
  int64_t partial_output_strides[3]; /* part, row, head */
  int64_t partial_lse_strides[3];    /* likewise */
  int64_t output_strides[2];         /* row, head */
  int64_t lse_strides[2];            /* likewise, where there is an lse */
  int32_t parts;                     /* 1 to 2147483644 */
  int32_t rows;                      /* queries: of all sequences, or of one; 0: nothing is launched */
  int32_t heads;                     /* query heads, at least 1; rows * heads * head_dim below 2^33 */
} cubit_merge_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_MERGE_H */
