/* New keys and values into a KV cache: the launch arguments of the operator kv_append.
 *
 *   cache.key[b, p(b, i), h] = stored(rotated(key[b, i, h], p(b, i)))
 *   cache.value[b, p(b, i), h] = stored(value[b, i, h])
 *
 * with p(b, i) = positions[b, i], or lengths[b] + i. A token whose position is negative or not below cache.max_length,
 * or whose i is not below counts[b], is left out: nothing of it is written. Two tokens of one sequence must not have
 * the same position, nor may two tokens, of whichever sequences, go to the same place of the same page. The number
 * format of the cache and the kind of rotation are the descriptor's: see <cubit/kv_append.hpp>.
 *
 * Rotation in float, each operation rounded by itself: a pair of channels (x, y) becomes (x cos - y sin, y cos + x
 * sin), the cosine and sine those of its position and number; what is then stored is rounded from these floats once.
 * Values that share a scale become anything where one of them is an infinity or NaN, those of a group of int4_rows
 * also where the largest less the smallest of them is more than the largest float.
 *
 * int8_split, fp8_e4m3, fp8_e5m2, in float: a scale is max(largest |x| / m, 1e-8), m = 127, 448, 57344, rounded to its
 * type (fp16 saturated to 65504); x / scale, rounded, -0 made +0, is clamped to -m ... m and rounded to the nearest
 * value of the format, ties to even. A scale that is zero, such as 1e-8 in fp16, gives zeros.
 */
#ifndef CUBIT_KV_APPEND_H
#define CUBIT_KV_APPEND_H

#include <cubit/kv_cache.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers, owned by the caller, valid until the launch has finished. Strides in elements; the last dimension is
 * contiguous. The addresses and strides of key, value, cosines and sines, in bytes, are multiples of 16. Strides of the
 * cache and of scales that are written may be negative, but none is so small that rows overwrite one another: its
 * magnitude is at least what smaller ones span. What the int32 tensors hold is read on the device: it may change
 * between replays of a CUDA graph. */
typedef struct cubit_kv_append_arguments {
  size_t size;              /* sizeof(cubit_kv_append_arguments) */
  const void* key;          /* [batch, tokens, kv_heads, head_dim] */
  const void* value;        /* [batch, tokens, kv_heads, value_dim] */
  int64_t key_strides[3];   /* sequence, token, KV head */
  int64_t value_strides[3]; /* likewise */
  cubit_kv_cache cache;
  const int32_t* lengths;   /* [batch] tokens that are in the cache already; NULL: none. One below 0: nothing of that
                             * sequence is written. Not read beside positions */
  const int32_t* positions; /* [batch, tokens], or NULL: tokens follow on lengths */
  const int32_t* counts;    /* [batch] of the tokens those that are there; NULL: all */
  const float* cosines;     /* [positions, rotary_dim / 2], where the descriptor rotates: those of all positions that
                             * are stored, at most cache.max_length, are read; else NULL */
  const float* sines;       /* as cosines */
  int64_t rotary_stride;    /* of cosines and of sines, from position to position; not read without them */
  int32_t rotary_dim;       /* channels that are rotated, the first of a row: a multiple of 16 up to head_dim; where
                             * the descriptor does not rotate, 0 */
  int32_t batch;            /* 0: nothing is launched; batch * tokens * cache.kv_heads at most 2147483647 */
  int32_t tokens;           /* new ones per sequence; 0: nothing is launched */
  cubit_kv_scales
      scales; /* scales=head and group: written beside each row, so that no stride from token to token is 0; token
                             * and tensor: read, for a row alone does not decide them */
} cubit_kv_append_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_KV_APPEND_H */
