// The one argument of the kv_append kernel, shared by host and device. Strides in bytes.
#pragma once

#include "kv_format/kv_cache_arguments.h"

namespace cubit {

struct KvAppendArguments {
  const char* key;           // [batch, tokens, kv_heads, head_dim]
  const char* value;         // [batch, tokens, kv_heads, value_dim]
  long long key_strides[3];  // sequence, token, KV head
  long long value_strides[3];
  KvCacheArguments cache;
  const int* lengths;    // [batch], or null: 0
  const int* positions;  // [batch, tokens], or null: those that follow on lengths
  const int* counts;     // [batch], or null: all tokens
  const char* cosines;   // float [max_length, rotary_dim / 2]; where rows are rotated
  const char* sines;
  long long rotary_stride;
  DivideBy tokens;
  DivideBy heads;  // lane groups of a token: kv_heads / steps
  unsigned rows;   // lane groups: batch * tokens * heads
  int steps;       // rows of a lane group, which are `heads` heads apart; these are the strides from one to the next
  long long key_step;
  long long value_step;
  long long cache_key_step;
  long long cache_value_step;
  long long key_scale_step;
  long long value_scale_step;
  int rotary_lanes;  // lanes of a row that hold channels to rotate: rotary_dim / 8
};

}  // namespace cubit
