// KV caches as descriptors name them: how a row is stored, and how rows are found.
#pragma once

#include <cubit/kv_cache.h>

namespace cubit {

/// How the KV cache stores a row of one token and one KV head.
enum class KvFormat {
  bf16,
  fp16,
  int4_rows,  ///< groups × (scale, shift) in fp16, then head_dim / 2 bytes, low nibble first; scale · q + shift
};

/// As the field `kv` has it.
inline const char* text_of(KvFormat format) {
  constexpr const char* kNames[] = {"bf16", "fp16", "int4_rows"};
  return kNames[static_cast<int>(format)];
}

/// Bytes of one row.
inline int kv_row_bytes(KvFormat format, int head_dim, int groups) {
  return format == KvFormat::int4_rows ? 4 * groups + head_dim / 2 : 2 * head_dim;
}

enum class KvAddressing {
  contiguous,  ///< one tensor [batch, tokens, kv_heads, row]
  paged,  ///< pages of 1 to 256 tokens, [pages, page size, kv_heads, row] or [pages, kv_heads, page size, row], and a table
};

}  // namespace cubit
