// The vocabulary of descriptors for KV caches: how a row is stored (KvFormat, KvScales) and found (KvAddressing).
#pragma once

#include <cubit/kv_cache.h>

#include <optional>
#include <string>

namespace cubit {

/// How the KV cache stores a row of one token and one KV head.
enum class KvFormat {
  bf16,
  fp16,
  /// A header of (scale, shift) pairs in fp16, one pair for each group of head_dim / groups neighbouring channels, then
  /// head_dim / 2 bytes of nibbles q = 0 … 15. The low nibble of byte i is channel 2i. value = scale · q + shift.
  int4_rows,
  // Formats of one byte per channel. Their scales are a separate tensor: see KvScales. value = scale · byte
  int8_split,  ///< signed bytes, -127 … 127
  fp8_e4m3,    ///< e4m3fn: up to 448, no infinity
  fp8_e5m2,    ///< up to 57344
};

/// Which channels of a cache share one scale, for formats whose scales are a separate tensor.
enum class KvScales {
  head,    ///< the row of one token and one KV head: scales are [batch, tokens, kv_heads]. Operators that only read
           ///< scales also take one scale per KV head, by strides of 0 for batch and tokens
  token,   ///< all rows of one token: scales are [batch, tokens]
  tensor,  ///< all keys share one number, and all values share one number
  group,   ///< one group of channels of a row: scales are [batch, tokens, kv_heads, groups]
};
/// Type of a scale in memory.
enum class ScaleType { fp32, fp16 };

/// Whether the scales of `format` are a separate tensor.
inline bool has_scales(KvFormat format) { return format >= KvFormat::int8_split; }

/// The text of a format in the field `kv`.
inline const char* text_of(KvFormat format) {
  constexpr const char* kNames[] = {"bf16", "fp16", "int4_rows", "int8_split", "fp8_e4m3", "fp8_e5m2"};
  return kNames[static_cast<int>(format)];
}
/// The text in the field `scales`.
inline const char* text_of(KvScales scales) {
  constexpr const char* kNames[] = {"head", "token", "tensor", "group"};
  return kNames[static_cast<int>(scales)];
}

/// Bytes of the row of one token and one KV head, scales in tensors of their own not counted.
inline int kv_row_bytes(KvFormat format, int head_dim, int groups) {
  if (has_scales(format)) return head_dim;
  return format == KvFormat::int4_rows ? 4 * groups + head_dim / 2 : 2 * head_dim;
}

/// Adds the fields value_dim, value, value_groups, value_scales and value_scale_type of a descriptor to its text, as
/// far as they store values differently from keys. `add` is called with a field's name and text.
template <class Descriptor, class Add>
void add_value_fields(const Descriptor& descriptor, Add&& add) {
  const Descriptor standard;
  const bool is_own_dim = descriptor.value_dim != standard.value_dim && descriptor.value_dim != descriptor.head_dim;
  if (is_own_dim) add("value_dim", std::to_string(descriptor.value_dim));
  const bool is_as_keys = descriptor.value == descriptor.kv && descriptor.value_groups == descriptor.groups &&
                          descriptor.value_scales == descriptor.scales &&
                          descriptor.value_scale_type == descriptor.scale_type;
  if (is_as_keys) return;
  if (descriptor.value) add("value", text_of(*descriptor.value));
  if (descriptor.value_groups != standard.value_groups) add("value_groups", std::to_string(descriptor.value_groups));
  if (descriptor.value_scales != standard.value_scales) add("value_scales", text_of(descriptor.value_scales));
  if (descriptor.value_scale_type != standard.value_scale_type) add("value_scale_type", "fp16");
}

/// How a kernel finds the row of a token.
enum class KvAddressing {
  contiguous,  ///< in one tensor [batch, tokens, kv_heads, row]
  /// in pages of 1 to 256 tokens, [pages, page size, kv_heads, row] or [pages, kv_heads, page size, row], through a
  /// page table
  paged,
};

}  // namespace cubit
