// Addressing of single rows: one strided tensor [batch, tokens, kv_heads, row] for keys and one for values, and
// likewise for their scales.
//
// Interface of an addressing role: find(cache, sequence, position), for any position at all, gives the place of a
// token's rows.
#pragma once

#include "core/types.cuh"
#include "kv_format/kv_cache_arguments.h"

namespace cubit {

/// Of a token: what the first two strides of a tensor count, and whether it is there.
struct CachePlace {
  uint32 outer;  // sequence, or page
  uint32 inner;  // token, within a page
  bool exists;   // else the others may be any

  __device__ __forceinline__ char* row(char* data, const long long (&strides)[3], int head) const {
    return data + outer * strides[0] + inner * strides[1] + static_cast<uint32>(head) * strides[2];
  }
};

struct ContiguousRows {
  static __device__ __forceinline__ CachePlace find(const KvCacheArguments& cache, int sequence, int64 position) {
    return {static_cast<uint32>(sequence), static_cast<uint32>(position), position >= 0 && position < cache.max_length};
  }
};

}  // namespace cubit
