// Addressing of single rows: one strided tensor [batch, tokens, kv_heads, row] for keys and one for values.
//
// Interface of an addressing role: find(cache, sequence, position, head), for any position at all, gives the rows' addresses
// and whether they exist.
#pragma once

#include "kv_cache_arguments.h"
#include "types.cuh"

namespace cubit {

struct CacheRow {
  char* key;
  char* value;
  bool exists;
};

struct ContiguousRows {
  static __device__ __forceinline__ CacheRow find(const KvCacheArguments& cache, int sequence, int64 position,
                                                  int head) {
    return {cache.key + sequence * cache.key_strides[0] + position * cache.key_strides[1] + head * cache.key_strides[2],
            cache.value + sequence * cache.value_strides[0] + position * cache.value_strides[1] +
                head * cache.value_strides[2],
            position >= 0 && position < cache.max_length};
  }
};

}  // namespace cubit
