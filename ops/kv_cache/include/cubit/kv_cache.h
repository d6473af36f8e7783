/* Where the rows of a KV cache and their scales lie: structs that launch arguments of several operators contain. */
#ifndef CUBIT_KV_CACHE_H
#define CUBIT_KV_CACHE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A KV cache, contiguous or paged. A row holds the channels of one token and one KV head and is contiguous. The
 * descriptor names the format of a row: one 16-bit number per channel (bf16, fp16), one byte per channel (int8_split,
 * fp8_e4m3, fp8_e5m2), or a header followed by one nibble per channel (int4_rows). <cubit/kv_cache.hpp> describes each.
 *
 * Device pointers belong to the caller and must stay valid until the launch has finished. Strides count elements; for
 * int4_rows and formats of one byte per channel they count bytes. Pointers and strides of key and value, in bytes, are
 * multiples of 16, for int4_rows of 4. Strides may be negative. If the descriptor gives values their own format or
 * dimension, these rules apply to keys with the keys' format and to values with the values' format.
 *
 * A paged cache holds token t of sequence b in page page_table[b, t / page_size], at place t % page_size of that page.
 * The kernel reads the page table on the device, so that its contents may change between replays of a CUDA graph. A
 * page number that is negative or not below `pages` stands for no page: the kernel does not touch rows there.
 *
 * gqa_decode takes the cache by members of its own struct, with rules of its own. */
typedef struct cubit_kv_cache {
  void* key;                 /* rows of keys: [batch, at least max_length tokens, kv_heads, row]; paged: [pages,
                              * page_size, kv_heads, row] or, by its strides, [pages, kv_heads, page_size, row] */
  void* value;               /* rows of values, as key */
  int64_t key_strides[3];    /* sequence or page, token, KV head */
  int64_t value_strides[3];  /* sequence or page, token, KV head */
  int32_t kv_heads;          /* at least 1 */
  int32_t max_length;        /* tokens that a sequence has room for; the kernel touches no row beyond them */
  const int32_t* page_table; /* paged: [batch, at least max_length / page_size, rounded up]; else NULL */
  int64_t page_table_stride; /* paged: from sequence to sequence */
  int32_t page_size;         /* paged: tokens of a page, 1 to 256; else 0 */
  int32_t pages;             /* paged: number of pages; else 0 */
} cubit_kv_cache;

/* The scales of a cache of int8_split, fp8_e4m3 or fp8_e5m2 (see <cubit/kv_cache.hpp>), fp32 or fp16 as the descriptor
 * says; NULL for other formats. Scales lie as the rows do: a paged cache has its scales in pages, too. Addresses and
 * strides are multiples of a scale's size. With scales=group the scales of one row are contiguous.
 *
 * Strides may be 0 if the launch only reads the scales. For scales=head the strides 0, 0, 1 mean one scale per KV head,
 * [kv_heads], for all sequences and tokens, as a calibration gives it. For scales=group the strides 0, 0, groups mean
 * one scale per group of a KV head. If kv_append writes the scales, each row has its own. */
typedef struct cubit_kv_scales {
  void* key;                /* scales=head: [batch, tokens, kv_heads]; token: [batch, tokens]; group: [batch, tokens,
                             * kv_heads, groups]; tensor: one number */
  void* value;              /* as key */
  int64_t key_strides[3];   /* sequence or page, token, KV head, counted in scales. scales=token does not read the last
                             * stride, scales=tensor reads no stride */
  int64_t value_strides[3]; /* as key_strides */
} cubit_kv_scales;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_KV_CACHE_H */
