// The number formats of a cache's rows: fields of descriptors, bytes, and what they mean, bit for bit.
#pragma once

#include <cubit/kv_cache.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "ops/element/element.hpp"
#include "ops/fields.hpp"

namespace cubit::ops::kv_cache {

/// The row of one token and one KV head.
struct RowFormat {
  int head_dim = 128;
  KvFormat kv = KvFormat::bf16;
  int groups = 1;

  bool is_16bit() const { return kv == KvFormat::bf16 || kv == KvFormat::fp16; }
  /// Of a row's values, or where a row holds packed values, of what it was made of.
  Element element() const { return kv == KvFormat::bf16 ? Element::bf16 : Element::fp16; }
  int row_bytes() const { return kv_row_bytes(kv, head_dim, groups); }
  int element_bytes() const { return is_16bit() ? 2 : 1; }
  int row_elements() const { return row_bytes() / element_bytes(); }
  int header_bytes() const { return kv == KvFormat::int4_rows ? 4 * groups : 0; }
  int alignment() const { return kv == KvFormat::int4_rows ? 4 : 16; }  ///< of addresses and strides, in bytes
  std::string_view type() const;                                        ///< "U8", "BF16" or "F16"
};

template <class Descriptor>
RowFormat format_of(const Descriptor& descriptor) {
  return {descriptor.head_dim, descriptor.kv, descriptor.groups};
}

/// The fields kv and groups.
template <class Descriptor>
std::vector<Field<Descriptor>> format_fields() {
  return {
      word_field<Descriptor, KvFormat>(
          {"kv", "bf16, fp16, int4_rows", "bf16", "format of the KV cache"}, &Descriptor::kv,
          {{"bf16", KvFormat::bf16}, {"fp16", KvFormat::fp16}, {"int4_rows", KvFormat::int4_rows}}),
      number_field<Descriptor>({"groups", "1, 2, 4, 8", "1",
                                "quantisation groups per row (int4_rows only), of a multiple of 16 channels each"},
                               &Descriptor::groups, {1, 2, 4, 8}),
  };
}

/// Rules between the fields of a format. `text`: as it was given, `canonical`: the descriptor's own.
/// Throws Failure(invalid_argument).
void validate_given_fields(const RowFormat& format, std::string_view text);
void validate_format(const RowFormat& format, const std::string& canonical);

/// One row, as formats.md has it: what a kernel must write, bit for bit.
void quantise_row(const RowFormat& format, const float* src, char* dst);
/// One row of values, each exact.
void dequantise_row(const RowFormat& format, const char* src, double* dst);
void load_row(Element element, const char* src, int channels, float* dst);
void store_row(Element element, const float* src, int channels, char* dst);

}  // namespace cubit::ops::kv_cache
