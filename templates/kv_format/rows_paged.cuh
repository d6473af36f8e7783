// Addressing of single rows: pages of a few tokens each, found through a table [batch, pages of a sequence]. The order
// of tokens and KV heads within a page is a matter of strides: NHD and HND are one kernel. A page number that is none
// of the pages, such as -1 for one that was never allocated, has no rows.
//
// Interface of an addressing role: see rows_contiguous.cuh. One more load than there, in the shadow of the position's.
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
