/* Where a KV cache lies: what the launch arguments of kv_append and kv_gather have in common. */
#ifndef CUBIT_KV_CACHE_H
#define CUBIT_KV_CACHE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers, owned by the caller, valid until the launch has finished. Strides in elements (bytes for int4_rows);
 * the row itself is contiguous. Pointers and strides, in bytes, are multiples of 16, for int4_rows of 4. */
typedef struct cubit_kv_cache {
  void* key;                /* rows of keys: [batch, at least max_length tokens, kv_heads, row] */
  void* value;              /* as key */
  int64_t key_strides[3];   /* sequence, token, KV head */
  int64_t value_strides[3]; /* likewise */
  int32_t kv_heads;         /* at least 1 */
  int32_t max_length;       /* tokens that a sequence has room for: a row beyond them is not touched */
} cubit_kv_cache;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_KV_CACHE_H */
