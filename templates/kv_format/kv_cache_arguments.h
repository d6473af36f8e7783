// A KV cache as a kernel argument, shared by host and device. Strides are in bytes.
#pragma once

#include "core/divide_by.h"

namespace cubit {

struct KvCacheArguments {
  char* key;
  char* value;
  long long key_strides[3];  // sequence (or page), token, KV head
  long long value_strides[3];
  DivideBy kv_heads;
  int max_length;  // tokens per sequence; rows of later tokens do not exist
  // Paged caches only:
  int pages;
  const int* page_table;        // [batch, pages of a sequence]
  long long page_table_stride;  // entries from one sequence to the next
  DivideBy page_size;
  // Scales in separate tensors; the strides are 0 if all rows share one scale.
  char* key_scales;
  char* value_scales;
  long long key_scale_strides[3];
  long long value_scale_strides[3];
};

}  // namespace cubit
