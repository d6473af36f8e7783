// KV caches as descriptors name them: how a row is stored, and how rows are found.
#pragma once

#include <cubit/kv_cache.h>

#include <optional>
#include <string>

namespace cubit {

/// How the KV cache stores a row of one token and one KV head.
enum class KvFormat {
  bf16,
  fp16,
  int4_rows,  ///< groups × (scale, shift) in fp16, then head_dim / 2 bytes, low nibble first; scale · q + shift
  // Values of one byte; their scales are a tensor of their own: see KvScales. value = scale · byte
  int8_split,  ///< signed bytes, -127 … 127
  fp8_e4m3,    ///< e4m3fn: up to 448, no infinity
  fp8_e5m2,    ///< up to 57344
};

/// Which values of a cache have a scale in common, where scales are a tensor of their own.
enum class KvScales {
  head,    ///< a row: one token and one KV head; [batch, tokens, kv_heads]. One per KV head: strides of 0, where read
  token,   ///< the rows of a token; [batch, tokens]
  tensor,  ///< all keys, and all values; one number each
  group,   ///< a row's group of channels; [batch, tokens, kv_heads, groups]
};
enum class ScaleType { fp32, fp16 };

/// Whether scales are a tensor of their own.
inline bool has_scales(KvFormat format) { return format >= KvFormat::int8_split; }

/// As the field `kv` has it.
inline const char* text_of(KvFormat format) {
  constexpr const char* kNames[] = {"bf16", "fp16", "int4_rows", "int8_split", "fp8_e4m3", "fp8_e5m2"};
  return kNames[static_cast<int>(format)];
}
/// As the field `scales` has it.
inline const char* text_of(KvScales scales) {
  constexpr const char* kNames[] = {"head", "token", "tensor", "group"};
  return kNames[static_cast<int>(scales)];
}

/// Bytes of one row.
inline int kv_row_bytes(KvFormat format, int head_dim, int groups) {
  if (has_scales(format)) return head_dim;
  return format == KvFormat::int4_rows ? 4 * groups + head_dim / 2 : 2 * head_dim;
}

/// Of a descriptor whose values may be stored otherwise than its keys, the fields value_dim, value, value_groups,
/// value_scales and value_scale_type, where they say so. `add`: what takes a field's name and text.
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

enum class KvAddressing {
  contiguous,  ///< one tensor [batch, tokens, kv_heads, row]
  /// pages of 1 to 256 tokens, [pages, page size, kv_heads, row] or [pages, kv_heads, page size, row], and a table
  paged,
};

}  // namespace cubit
