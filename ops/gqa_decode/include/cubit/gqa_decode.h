/* Decode attention for grouped queries: the launch arguments of the operator gqa_decode.
 *
 *   output[b, h] = sum over t < lengths[b] of softmax_t(softmax_scale * query[b, h] . key[b, t, h / heads_per_kv])
 *                  * value[b, t, h / heads_per_kv]
 *
 * A sequence of length 0 gives zeros and a log-sum-exp of minus infinity, or of its sink. The descriptor says what the
 * numbers in the cache mean: see <cubit/gqa_decode.hpp>. Outputs are within 1e-3 of a double-precision reference, or
 * 3e-3 if the output or the cache is bf16 (docs/operators/gqa_decode.md#accuracy). This requires that values times
 * their scales are below 2^100, and that a value's scale, of a row or a group, is 0 or at least 2^-80; smaller scales
 * may become 0. A byte or scale of the cache that is NaN is read as NaN on every architecture: a NaN in a row of keys
 * that a query sees makes the outputs of its heads NaN, and a NaN among a row's values makes their channel NaN. With
 * infinities in queries or in the cache outputs may be infinite or NaN.
 *
 * query_tokens = S > 1: query and output are [batch, S, heads, head_dim], lse is [batch, S, heads]. The query tokens
 * are the last S of a sequence, whose keys and values are in the cache: token s stands at position lengths[b] - S + s.
 * Token s sees all positions before the first query token. Of the query tokens, token s sees itself and the tokens
 * before it, or with mask=tree the tokens that the mask names. If a sequence has fewer than S tokens, query tokens of a
 * negative position see nothing: they give zeros and minus infinity, or their sink.
 *
 * The same launch gives the same bits. The order in which a sequence's tokens are added up decides the last bits. This
 * order depends on the batch, the sequence's place in the batch, lengths, strides and the device.
 *
 * A descriptor may ask for more. Its fields combine in this order; p is the query token's position, t the key's:
 *   s = softmax_scale * query . key
 *   soft_cap=true    s = soft_cap * tanh(s / soft_cap)
 *   alibi=true       s = s + alibi_slopes[h] * (t - p)
 *   score=name@hash  s = modify_score(s, {b, h, p, t}, score_parameters), a user's own device code: see cubit_add_score
 *   window=true      t is seen if t > p - window or t < kept_tokens; nothing else is read
 *   sinks=true       the denominator is larger by exp(sinks[h]), as if for a token whose value is zero; lse includes it
 */
#ifndef CUBIT_GQA_DECODE_H
#define CUBIT_GQA_DECODE_H

#include <cubit/kv_cache.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers belong to the caller and must stay valid until the launch has finished. Strides count elements of the
 * tensor (bytes for int4_rows caches and for caches of one byte per channel); the last dimension is contiguous. Every
 * pointer and every stride, in bytes, of query, key, value and output must be a multiple of the descriptor's alignment.
 * Strides of output may be negative. Heads must not overwrite one another: the magnitude of a stride is at least what
 * smaller strides span.
 *
 * The kernel reads lengths, page_table and mask on the device, so that their contents may change between replays of a
 * CUDA graph. */
typedef struct cubit_gqa_decode_arguments {
  size_t size;            /* sizeof(cubit_gqa_decode_arguments) */
  const void* query;      /* [batch, kv_heads * heads_per_kv, head_dim]; query_tokens > 1: [batch, query_tokens, …] */
  const void* key;        /* [batch, at least max_length tokens, kv_heads, row]; cache=paged: [pages, page_size,
                           * kv_heads, row] or, by its strides, [pages, kv_heads, page_size, row] */
  const void* value;      /* as key, with rows of the descriptor's value, value_dim and value_groups */
  const int32_t* lengths; /* [batch] tokens per sequence, clamped to 0 ... max_length; NULL: all max_length */
  void* output;           /* as query, with value_dim for head_dim */
  float* lse;             /* [batch, kv_heads * heads_per_kv], dense: natural logarithm of the softmax denominator, or
                           * NULL; query_tokens > 1: [batch, query_tokens, …] */
  int64_t query_strides[2];  /* batch, head */
  int64_t key_strides[3];    /* batch (cache=paged: page), token, KV head. The token stride is not negative and is below
                              * 128 MiB */
  int64_t value_strides[3];  /* as key_strides */
  int64_t output_strides[2]; /* batch, head */
  int32_t batch;             /* sequences; 0: nothing is launched; batch * kv_heads at most 8388607 */
  int32_t kv_heads;          /* at least 1 */
  int32_t max_length;        /* bound of every length, at most 2147479551. Grid and workspace depend on max_length. In
                              * family sm90 batch * kv_heads * max_length, counted in stages of 16 to 256 tokens, times
                              * the head groups that `cubit explain` shows, is below 2^31; each sequence adds a few
                              * stages */
  float softmax_scale; /* usually 1 / sqrt(head_dim); not 0; magnitude at most 1e30. softmax_scale times a query must be
                        * below 2^100. With bf16 queries and a bf16 cache the unscaled product query . key must be a
                        * finite float, too */
  int32_t splits;      /* for tuning: splits of equal size per sequence and KV head, at most 256; 0: cubit decides */
  const int32_t* page_table; /* cache=paged: [batch, at least max_length / page_size, rounded up]; else NULL. The pages
                              * of a sequence's tokens must exist: the kernel does not check page numbers */
  int64_t page_table_stride; /* cache=paged: from sequence to sequence */
  int32_t page_size;         /* cache=paged: tokens of a page, 1 to 256; else 0. For int4_rows with small pages on sm_90
                              * family=sm80 is faster: see cubit_suggest */
  cubit_kv_scales scales;    /* of int8_split, fp8_e4m3 and fp8_e5m2 caches: see <cubit/kv_cache.h>; only read */
  int64_t query_token_stride;   /* query_tokens > 1: from query token to query token; else not read */
  int64_t output_token_stride;  /* query_tokens > 1: from query token to query token; else not read */
  const int32_t* mask;          /* mask=tree: [batch, query_tokens] words, else NULL. If bit j of word s is set, query
                                 * token s sees query token j, also for j = s; the kernel ignores bits from
                                 * query_tokens on */
  int64_t mask_stride;          /* mask=tree: from sequence to sequence, in words */
  const float* alibi_slopes;    /* alibi=true: [kv_heads * heads_per_kv], dense, magnitude at most 1e28; else NULL */
  const float* sinks;           /* sinks=true: [kv_heads * heads_per_kv], dense, magnitude at most 1e38; minus infinity:
                                 * no sink; else NULL */
  const void* score_parameters; /* score=…: the pointer that modify_score gets, may be NULL; else NULL */
  float soft_cap;               /* soft_cap=true: 1e-30 to 1e30; else 0 */
  int32_t window;               /* window=true: tokens that a query sees, the last of them the query itself; at least 1.
                                 * Grid and workspace depend on the window. Else 0 */
  int32_t kept_tokens;          /* window=true: a sequence's first tokens, which every query sees as well; 0 or more;
                                 * else 0 */
  int32_t reserved;             /* 0 */
} cubit_gqa_decode_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_GQA_DECODE_H */
