/* Appends new keys and values to a KV cache: the launch arguments of the operator kv_append.
 *
 *   cache.key[b, p(b, i), h] = stored(rotated(key[b, i, h], p(b, i)))
 *   cache.value[b, p(b, i), h] = stored(value[b, i, h])
 *
 * for sequence b, new token i and KV head h. The position p(b, i) is positions[b, i] if positions are given, otherwise
 * lengths[b] + i. The descriptor chooses the cache's number format, which stored() rounds to, and the kind of rotation:
 * see <cubit/kv_append.hpp>.
 *
 * The kernel writes nothing of a token whose position is negative or not below cache.max_length, or whose i is not
 * below counts[b]. Two tokens of one sequence must not have the same position. Two tokens, of the same or of different
 * sequences, must not go to the same place of the same page.
 *
 * Rotation is computed in float, and each operation is rounded by itself. A pair of channels (x, y) becomes
 * (x cos - y sin, y cos + x sin), with the cosine and sine of the token's position and the pair's number. The result
 * stays in float and is rounded once, when it is stored.
 *
 * An infinity or NaN stays visible. If the kernel writes the scale of a group of values, and one of them is an infinity
 * or NaN, that scale (int4_rows: scale and shift) is NaN, 0x7fc00000 or 0x7e00, and the group's bytes are 0. If the
 * kernel only reads the scale, fp8 stores NaN (0x7f) for an infinity or NaN; int8_split, which has no NaN, stores 0 for
 * NaN and -127 or 127 for an infinity. A NaN scale that is read gives NaN in fp8 and 0 in int8_split. A group of
 * int4_rows of finite values whose largest value less its smallest value exceeds the largest float may become anything.
 *
 * int8_split, fp8_e4m3 and fp8_e5m2 are computed in float. A scale is max(largest |x| / m, 1e-8) with m = 127, 448 or
 * 57344, rounded to the scale's type (fp16 saturates to 65504). The quotient x / scale is rounded, -0 becomes +0, and
 * the result is clamped to -m ... m and rounded to the nearest value of the format, ties to even. A scale of zero gives
 * zeros; 1e-8 in fp16 is such a scale.
 *
 * int4_rows are computed in float. With the smallest value lo and the largest value hi of a group, a channel x is
 * stored as q = (x - lo) * 15 / ((hi - lo) + 1e-8), rounded to an integer, ties to even, and clamped to 0 ... 15. The
 * header stores scale = (hi - lo) / 15 and shift = lo, both rounded to fp16 and saturated to +-65504.
 */
#ifndef CUBIT_KV_APPEND_H
#define CUBIT_KV_APPEND_H

#include <cubit/kv_cache.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers belong to the caller and must stay valid until the launch has finished. Strides count elements; the
 * last dimension is contiguous. The addresses and strides of key, value, cosines and sines, in bytes, are multiples of
 * 16. Strides of the cache and of written scales may be negative. Rows must not overwrite one another: the magnitude of
 * a stride is at least what smaller strides span. The kernel reads the int32 tensors on the device, so that their
 * contents may change between replays of a CUDA graph. */
typedef struct cubit_kv_append_arguments {
  size_t size;              /* sizeof(cubit_kv_append_arguments) */
  const void* key;          /* [batch, tokens, kv_heads, head_dim] */
  const void* value;        /* [batch, tokens, kv_heads, value_dim] */
  int64_t key_strides[3];   /* sequence, token, KV head */
  int64_t value_strides[3]; /* sequence, token, KV head */
  cubit_kv_cache cache;
  const int32_t* lengths;   /* [batch] tokens already in the cache; NULL: none. A negative length: nothing of that
                             * sequence is written. Not read if positions are given */
  const int32_t* positions; /* [batch, tokens]; NULL: new tokens follow the tokens that lengths counts */
  const int32_t* counts;    /* [batch] new tokens of each sequence, at most `tokens`; NULL: all `tokens` */
  const float* cosines;     /* [positions, rotary_dim / 2] if the descriptor rotates, else NULL. The kernel reads the
                             * rows of all positions that it stores, at most cache.max_length rows */
  const float* sines;       /* as cosines */
  int64_t rotary_stride;    /* of cosines and of sines, from position to position; not read without them */
  int32_t rotary_dim;       /* rotated channels, the first of a row: a multiple of 16 up to head_dim; 0 if the
                             * descriptor does not rotate */
  int32_t batch;            /* sequences; 0: nothing is launched; batch * tokens * cache.kv_heads at most 2147483647 */
  int32_t tokens;           /* new tokens per sequence; 0: nothing is launched */
  /* Scales of the cache. scales=head and scales=group: written with each row, so that no stride from token to token is
   * 0. scales=token and scales=tensor: read, because one row alone does not determine such a scale. */
  cubit_kv_scales scales;
} cubit_kv_append_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_KV_APPEND_H */
