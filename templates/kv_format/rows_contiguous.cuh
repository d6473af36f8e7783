// Addressing of single rows in a contiguous cache: one strided tensor [batch, tokens, kv_heads, row] for keys, one for
// values, and one for the scales of each.
//
// Interface of an addressing role: find(cache, sequence, position) returns the place of a token's rows, for any
// position.
#pragma once

#include "core/types.cuh"
#include "kv_format/kv_cache_arguments.h"

namespace cubit {

/// Place of a token: the indices for the first two strides of a tensor, and whether the token exists.
struct CachePlace {
  uint32 outer;  // sequence or page
  uint32 inner;  // token, in a paged cache within its page
  bool exists;   // if false, `outer` and `inner` are meaningless

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
