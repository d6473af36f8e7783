// The one argument of the GQA decode kernels, shared by host and device. Strides in bytes.
#pragma once

namespace cubit {

struct GqaDecodeArguments {
  const void* query;   // [batch, kv_heads * heads_per_kv, head_dim]
  const void* key;     // [batch, tokens, kv_heads, row]
  const void* value;   // as key
  const int* lengths;  // [batch], or null: every sequence has max_length tokens
  void* output;        // as query
  float* lse;          // [batch, kv_heads * heads_per_kv] natural log-sum-exp, or null

  // Workspace, used where splits > 1. A head group is the heads of one KV head that a block takes.
  unsigned* counters;    // [batch * kv_heads * head groups], zero between launches
  float* partial;        // [batch * kv_heads * head groups, splits, heads per block, head_dim] unnormalised outputs
  float* partial_stats;  // [batch * kv_heads * head groups, splits, heads per block, 2] reference exponent and sum

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
  int splits;
  float scale_log2;  // softmax scale times log2(e)
  int clustered;     // family sm90: the splits of a sequence are a cluster, and no workspace is used
};

}  // namespace cubit
