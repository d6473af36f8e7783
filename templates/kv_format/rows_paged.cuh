// Addressing of single rows in a paged cache: pages of a few tokens each, found through a table [batch, pages of a
// sequence].
//
// Strides define the order of tokens and KV heads within a page, so one kernel serves the NHD and the HND layout. A
// page number that is not a page of the cache, such as -1 for a page that was never allocated, has no rows.
//
// Interface of an addressing role: see rows_contiguous.cuh. The page lookup is one more load, whose latency overlaps
// with the load of the position.
#pragma once

#include "core/types.cuh"
#include "kv_format/row_lanes.cuh"
#include "kv_format/rows_contiguous.cuh"

namespace cubit {

struct PagedRows {
  static __device__ __forceinline__ CachePlace find(const KvCacheArguments& cache, int sequence, int64 position) {
    if (position < 0 || position >= cache.max_length) return {0, 0, false};
    const uint32 token = static_cast<uint32>(position);
    const uint32 index = quotient(token, cache.page_size);
    const uint32 in_page = token - index * cache.page_size.divisor;
    const int page = cache.page_table[sequence * cache.page_table_stride + index];
    return {static_cast<uint32>(page), in_page, page >= 0 && page < cache.pages};
  }
};

}  // namespace cubit
