// A KV cache as a kernel's argument, shared by host and device. Strides in bytes.
#pragma once

#include "core/divide_by.h"

namespace cubit {

struct KvCacheArguments {
  char* key;
  char* value;
  long long key_strides[3];  // sequence or page, token, KV head
  long long value_strides[3];
  DivideBy kv_heads;
  int max_length;  // rows of later tokens do not exist
  // Of a paged cache.
  int pages;
  const int* page_table;        // [batch, pages of a sequence]
  long long page_table_stride;  // from sequence to sequence, in numbers
  DivideBy page_size;
  // Where scales are tensors of their own: of one that all rows share, the strides are 0.
  char* key_scales;
  char* value_scales;
  long long key_scale_strides[3];
  long long value_scale_strides[3];
};

}  // namespace cubit
