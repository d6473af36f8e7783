// How a KV cache is addressed: a field that descriptors have in common.
#pragma once

#include <cubit/kv_cache.h>

namespace cubit {

enum class KvAddressing {
  contiguous,  ///< one tensor [batch, tokens, kv_heads, row]
  paged,  ///< pages of 1 to 256 tokens, [pages, page size, kv_heads, row] or [pages, kv_heads, page size, row], and a table
};

}  // namespace cubit
