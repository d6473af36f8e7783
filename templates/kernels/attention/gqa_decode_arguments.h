// Kernel argument of GQA decode, shared by host and device. The sm_90 kernel's argument adds tensor maps behind this
// struct (tma_producer.cuh). Strides are in bytes.
#pragma once

#include "core/divide_by.h"
#include "pipeline/balanced_schedule.h"

namespace cubit {

struct GqaDecodeArguments {
  const void* query;   // [batch, query tokens, kv_heads * heads_per_kv, head_dim]; no token dimension with one token
  const void* key;     // [batch, tokens, kv_heads, row], or pages
  const void* value;   // as key
  const int* lengths;  // [batch], or null: every sequence has max_length tokens
  void* output;        // as query, with value_dim in place of head_dim
  float* lse;          // [batch, query tokens, kv_heads * heads_per_kv] natural log-sum-exp, or null

  // Workspace. A head group is the set of query rows of one KV head that a block processes. A span is the set of KV
  // heads that a block processes; outside the sm_90 kernel a span is one KV head.
  // sm_80 kernel with splits > 1: one counter per (sequence, KV head, head group), and one slot for each of its splits.
  // sm_90 kernel: two counters per block, which form one word, and two slots per block, see merge_slices.cuh.
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
  int splits;        // sm_75 and sm_80 kernels only
  // sm_90 kernel only, see sm90_gqa_decode.cuh:
  int span_log2;  // KV heads that a block processes together
  // Box columns: a stage's keys, and its values, are cut into this many columns, and a box copies rows of one column.
  // 1: the column has the rows of all warps; more: see copy_boxes(); 0: the tensor maps do not describe the cache.
  int boxes;
  int stage_tokens_log2;  // tokens of a stage
  int row_step_log2;      // tokens from one row of a warp to the warp's next row
  unsigned pace;          // copy pacing: 1/1024 ns in which the memory delivers a stage, see copy_pacing.cuh; 0: no
                          // pacing
  unsigned stagger;       // multiplier of the start offset, see StageIterator; 0: blocks begin at a work item's first
                          // stage
  int warp_step_log2;     // tokens from a warp to the next warp of the same KV head
  DivideBy heads;         // spans * head groups
  Division division;      // valid if lengths is null or splits are requested; otherwise parts is 0, and blocks is the
                          // grid size
  int blocks_each;        // if division is not valid: blocks / sequences
  DivideBy units;         // units of a sequence if division is valid; otherwise blocks of the grid
  int unit_stages;        // if lengths is null: stages of each unit; the first larger_units units of a sequence have
                          // one more
  int larger_units;
  // Separate scale tensors; the strides are 0 if all rows share one scale.
  const char* key_scales;
  const char* value_scales;
  long long key_scale_strides[3];  // batch, token, KV head
  long long value_scale_strides[3];
  // Paged caches only; a batch stride is then the stride from page to page.
  const int* page_table;        // [batch, pages of a sequence]
  long long page_table_stride;  // entries from one sequence to the next
  DivideBy page_size;
  // Paged caches with box copies in the sm_90 kernel, see PageWindow:
  int granules_log2;         // granules of a stage's keys
  int column_granules_log2;  // granules of a box column
  int box_parts;             // boxes of a granule: one for each part of its rows, or a single box for all parts
  unsigned box_bytes;        // bytes of a box
  // Several query tokens per sequence, see query_tokens.cuh:
  long long query_token_stride;
  long long output_token_stride;
  const int* mask;        // [batch, query tokens] mask words of a tree
  long long mask_stride;  // entries from one sequence to the next
  // Read only if the descriptor requests the role:
  const float* alibi_slopes;  // [query heads]
  const float* sinks;         // [query heads]
  const void* score_parameters;
  float soft_cap_log2;     // multiplied by log2(e)
  float soft_cap_inverse;  // reciprocal of the cap
  int window;              // tokens; at least 1 and at most max_length
  int kept_tokens;         // tokens kept before the window; at most max_length
};

}  // namespace cubit
