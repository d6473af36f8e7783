// Kernel argument of kv_append, shared by host and device. Strides are in bytes.
#pragma once

#include "kv_format/kv_cache_arguments.h"

namespace cubit {

struct KvAppendArguments {
  const char* key;           // [batch, tokens, kv_heads, head_dim]
  const char* value;         // [batch, tokens, kv_heads, value_dim]
  long long key_strides[3];  // sequence, token, KV head
  long long value_strides[3];
  KvCacheArguments cache;
  const int* lengths;    // [batch], or null: every length is 0
  const int* positions;  // [batch, tokens], or null: the positions that follow lengths
  const int* counts;     // [batch], or null: all tokens
  const char* cosines;   // float [max_length, rotary_dim / 2]; used if rows are rotated
  const char* sines;
  long long rotary_stride;
  DivideBy tokens;
  DivideBy heads;  // lane groups of a token: kv_heads / steps
  unsigned rows;   // lane groups: batch * tokens * heads
  int steps;       // rows of a lane group, `heads` heads apart; the following strides lead from row to row
  long long key_step;
  long long value_step;
  long long cache_key_step;
  long long cache_value_step;
  long long key_scale_step;
  long long value_scale_step;
  int rotary_lanes;  // lanes of a row that hold channels to rotate: rotary_dim / 8
};

}  // namespace cubit
