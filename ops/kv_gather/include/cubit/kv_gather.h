/* Rows of a KV cache as 16-bit values: the launch arguments of the operator kv_gather.
 *
 *   key[b, i, h] = value of cache.key[b, from[b] + i, h], and value[b, i, h] likewise, for from[b] + i < to[b]
 *
 * in float (of int8_split, fp8_e4m3, fp8_e5m2 the product with the scale, rounded; a NaN or infinity among the bytes
 * gives anything), rounded to the output's type. A row whose token is not below to[b] or not below
 * cache.max_length is neither read nor written, nor is any of a sequence whose from[b] is negative. The cache's number
 * format is the descriptor's: see <cubit/kv_gather.hpp>.
 */
#ifndef CUBIT_KV_GATHER_H
#define CUBIT_KV_GATHER_H

#include <cubit/kv_cache.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers, owned by the caller, valid until the launch has finished. Strides in elements; the last dimension is
 * contiguous. The addresses and strides of key and value, in bytes, are multiples of 16; strides may be negative, but
 * none is so small that rows overwrite one another: its magnitude is at least what smaller ones span. What the int32
 * tensors hold is read on the device: it may change between replays of a CUDA graph. */
typedef struct cubit_kv_gather_arguments {
  size_t size;              /* sizeof(cubit_kv_gather_arguments) */
  void* key;                /* [batch, tokens, kv_heads, head_dim] */
  void* value;              /* [batch, tokens, kv_heads, value_dim] */
  int64_t key_strides[3];   /* sequence, token, KV head */
  int64_t value_strides[3]; /* likewise */
  cubit_kv_cache cache;     /* only read */
  const int32_t* from;      /* [batch] the first token of each sequence; NULL: 0. One below 0 gives no rows at all */
  const int32_t* to;        /* [batch] one more than the last, such as the length; NULL: cache.max_length */
  int32_t batch;            /* 0: nothing is launched; batch * tokens * cache.kv_heads at most 2147483647 */
  int32_t tokens;           /* rows per sequence and KV head, at most; 0: nothing is launched */
  cubit_kv_scales scales;   /* only read */
} cubit_kv_gather_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_KV_GATHER_H */
