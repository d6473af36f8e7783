// Kernel argument of kv_gather, shared by host and device. Strides are in bytes.
#pragma once

#include "kv_format/kv_cache_arguments.h"

namespace cubit {

struct KvGatherArguments {
  char* key;                 // [batch, tokens, kv_heads, head_dim]
  char* value;               // [batch, tokens, kv_heads, value_dim]
  long long key_strides[3];  // sequence, token, KV head
  long long value_strides[3];
  KvCacheArguments cache;
  const int* from;  // first position, [batch], or null: 0
  const int* to;    // end position, [batch], or null: all tokens
  DivideBy tokens;
  unsigned rows;  // batch * tokens * kv_heads
};

}  // namespace cubit
