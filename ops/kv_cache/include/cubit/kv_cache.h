/* Where a KV cache and its scales lie: what launch arguments have in common. */
#ifndef CUBIT_KV_CACHE_H
#define CUBIT_KV_CACHE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers, owned by the caller, valid until the launch has finished. Strides in elements (bytes for int4_rows
 * and for formats of one byte); the row itself is contiguous. Pointers and strides of key and value, in bytes, are
 * multiples of 16, for int4_rows of 4. Where the descriptor has values of a format or dimension of their own, all this
 * holds for keys by theirs and for values by theirs.
 *
 * A paged cache holds token t of sequence b in page page_table[b, t / page_size], there at place t % page_size. Its
 * page table is read on the device: it may change between replays of a CUDA graph. A page number that is negative or
 * not below `pages` has no rows: they are not touched. */
typedef struct cubit_kv_cache {
  void* key;              /* rows of keys: [batch, at least max_length tokens, kv_heads, row]; paged: [pages, page_size,
                              * kv_heads, row] or, by its strides, [pages, kv_heads, page_size, row] */
  void* value;            /* rows of values, as key */
  int64_t key_strides[3]; /* sequence or page, token, KV head */
  int64_t value_strides[3];  /* likewise */
  int32_t kv_heads;          /* at least 1 */
  int32_t max_length;        /* tokens that a sequence has room for: a row beyond them is not touched */
  const int32_t* page_table; /* paged: [batch, at least max_length / page_size, rounded up]; else NULL */
  int64_t page_table_stride; /* paged: from sequence to sequence */
  int32_t page_size;         /* paged: tokens of a page, 1 to 256; else 0 */
  int32_t pages;             /* paged: how many there are; else 0 */
} cubit_kv_cache;

/* The scales of a cache of int8_split, fp8_e4m3 or fp8_e5m2 (see <cubit/kv_cache.hpp>), fp32 or fp16 as the descriptor
 * has it; for other formats NULL. They lie as the rows do: of a paged cache, in pages. Addresses and strides are
 * multiples of a scale's size; with scales=group the scales of a row follow one another.
 *
 * Where they are only read, strides may be 0: scales=head with 0, 0, 1 has one scale per KV head, [kv_heads], for all
 * sequences and tokens, as a calibration gives it, and scales=group with 0, 0, groups one per group of a KV head. Where
 * kv_append writes them, each row has its own. */
typedef struct cubit_kv_scales {
  void* key;   /* scales=head: [batch, tokens, kv_heads]; token: [batch, tokens]; group: [batch, tokens, kv_heads,
                             * groups]; tensor: one number */
  void* value; /* as key */
  int64_t
      key_strides[3]; /* in scales: sequence or page, token, KV head. Not read: the last where scales=token, all where
                             * scales=tensor */
  int64_t value_strides[3]; /* likewise */
} cubit_kv_scales;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_KV_CACHE_H */
