/* Reads rows of a KV cache as 16-bit values: the launch arguments of the operator kv_gather.
 *
 *   key[b, i, h]   = the dequantised row cache.key[b, from[b] + i, h]
 *   value[b, i, h] = the dequantised row cache.value[b, from[b] + i, h]     for from[b] + i < to[b]
 *
 * Values are computed in float and rounded to the output's type. For int8_split, fp8_e4m3 and fp8_e5m2 a value is the
 * rounded product of byte and scale; a byte or scale that is NaN or an infinity is read as such. The kernel neither
 * reads nor writes a row whose token is not below to[b] or not below cache.max_length. If from[b] is negative, the
 * kernel touches no row of that sequence. The descriptor chooses the cache's number format: see <cubit/kv_gather.hpp>.
 */
#ifndef CUBIT_KV_GATHER_H
#define CUBIT_KV_GATHER_H

#include <cubit/kv_cache.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers belong to the caller and must stay valid until the launch has finished. Strides count elements; the
 * last dimension is contiguous. The addresses and strides of key and value, in bytes, are multiples of 16. Strides may
 * be negative. Rows must not overwrite one another: the magnitude of a stride is at least what smaller strides span.
 * The kernel reads the int32 tensors on the device, so that their contents may change between replays of a CUDA
 * graph. */
typedef struct cubit_kv_gather_arguments {
  size_t size;              /* sizeof(cubit_kv_gather_arguments) */
  void* key;                /* written: [batch, tokens, kv_heads, head_dim] */
  void* value;              /* written: [batch, tokens, kv_heads, value_dim] */
  int64_t key_strides[3];   /* sequence, token, KV head */
  int64_t value_strides[3]; /* sequence, token, KV head */
  cubit_kv_cache cache;     /* only read */
  const int32_t* from;      /* [batch] first token of each sequence; NULL: 0. A negative number gives no rows */
  const int32_t* to;        /* [batch] one more than the last token, such as the length; NULL: cache.max_length */
  int32_t batch;            /* sequences; 0: nothing is launched; batch * tokens * cache.kv_heads at most 2147483647 */
  int32_t tokens;           /* most rows per sequence and KV head; 0: nothing is launched */
  cubit_kv_scales scales;   /* only read */
} cubit_kv_gather_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_KV_GATHER_H */
