// The one argument of the GQA decode kernels, shared by host and device: of family sm90 with tensor maps behind.
// Strides in bytes.
#pragma once

#include "core/divide_by.h"
#include "pipeline/balanced_schedule.h"

namespace cubit {

struct GqaDecodeArguments {
  const void* query;  // [batch, query tokens, kv_heads * heads_per_kv, head_dim], with one token without that dimension
  const void* key;    // [batch, tokens, kv_heads, row], or pages
  const void* value;  // as key
  const int* lengths;  // [batch], or null: every sequence has max_length tokens
  void* output;        // as query, with value_dim for head_dim
  float* lse;          // [batch, query tokens, kv_heads * heads_per_kv] natural log-sum-exp, or null

  // Workspace. A head group is the heads of one KV head that a block takes, those of every query token counted, a span
  // the KV heads: one but in family sm90.
  // Family sm80, where splits > 1: a counter per (sequence, KV head, head group), and a slot for each of its splits.
  // Family sm90: two counters, which are one word, and two slots per block, see merge_slices.cuh.
  unsigned* counters;    // zero between launches
  float* partial;        // [slots, span, heads per block, value_dim] unnormalised outputs
  float* partial_stats;  // [slots, span, heads per block, 2] reference exponent and sum

  long long query_batch_stride;
  long long query_head_stride;
  long long key_batch_stride;
  long long key_head_stride;
  long long value_batch_stride;
  long long value_head_stride;
  long long output_batch_stride;
  long long output_head_stride;

  int key_token_stride;
  int value_token_stride;
  int kv_heads;
  int max_length;
  int batch;
  float scale_log2;  // softmax scale times log2(e)
  int splits;        // families sm75 and sm80
  // Family sm90: see sm90_gqa_decode.cuh.
  int span_log2;  // of the KV heads that a block takes together
  int boxes;      // columns of boxes that are the keys of a stage, as its values; 0: the maps do not describe the cache
  int stage_tokens_log2;  // of a stage
  int row_step_log2;      // tokens from one row of a warp to its next
  unsigned pace;          // 1/1024 ns in which the memory brings a stage, see copy_pacing.cuh; 0: nobody waits for it
  unsigned stagger;       // what blocks begin in the middle of segments by, see StageWalk; 0: they begin at the first
                          // stage
  int warp_step_log2;     // tokens from a warp to the next beside it of the same KV head
  DivideBy heads;         // spans * head groups
  Division division;      // where lengths is null, or splits are asked for; else parts are 0, and the blocks those of
                          // the grid
  int blocks_each;        // then: blocks / sequences
  DivideBy units;         // of a sequence, where lengths is null or splits are asked for; else blocks of the grid
  int unit_stages;        // where lengths is null: of each unit, of the first larger_units of a sequence one more
  int larger_units;
  // Where scales are tensors of their own; of one that all rows share, the strides are 0.
  const char* key_scales;
  const char* value_scales;
  long long key_scale_strides[3];  // batch, token, KV head
  long long value_scale_strides[3];
  // Of a paged cache, in which a batch stride is that from page to page.
  const int* page_table;        // [batch, pages of a sequence]
  long long page_table_stride;  // from sequence to sequence, in numbers
  DivideBy page_size;
  // Of a paged cache in family sm90, where there are boxes: see PageWindow.
  int granules_log2;         // of a stage
  int column_granules_log2;  // of a column of boxes
  int box_parts;             // boxes of a granule, each of one part of its rows, or 1 of all parts
  unsigned box_bytes;
  // Of several query tokens per sequence: see query_tokens.cuh.
  long long query_token_stride;
  long long output_token_stride;
  const int* mask;        // [batch, query tokens] bits, of a tree
  long long mask_stride;  // from sequence to sequence, in numbers
  // Of roles that the descriptor asks for, else not read.
  const float* alibi_slopes;  // [query heads]
  const float* sinks;         // [query heads]
  const void* score_parameters;
  float soft_cap_log2;     // times log2(e)
  float soft_cap_inverse;  // 1 / that
  int window;              // tokens, at least 1; no more than max_length
  int kept_tokens;         // before the window; no more than max_length
};

}  // namespace cubit
