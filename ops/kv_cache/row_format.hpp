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
  KvScales scales = KvScales::head;
  ScaleType scale_type = ScaleType::fp32;

  bool is_16bit() const { return kv == KvFormat::bf16 || kv == KvFormat::fp16; }
  bool has_scales() const { return cubit::has_scales(kv); }  ///< in a tensor of their own
  /// Whether a row decides its scales by itself.
  bool makes_scales() const { return has_scales() && (scales == KvScales::head || scales == KvScales::group); }
  int scale_bytes() const { return scale_type == ScaleType::fp32 ? 4 : 2; }
  std::string_view scale_element() const { return scale_type == ScaleType::fp32 ? "F32" : "F16"; }
  float largest() const;  ///< value of a byte: 127, 448 or 57344
  /// Of a row's values, or where a row holds packed values, of what it was made of.
  Element element() const { return kv == KvFormat::bf16 ? Element::bf16 : Element::fp16; }
  int row_bytes() const { return kv_row_bytes(kv, head_dim, groups); }
  int element_bytes() const { return is_16bit() ? 2 : 1; }
  int row_elements() const { return row_bytes() / element_bytes(); }
  int header_bytes() const { return kv == KvFormat::int4_rows ? 4 * groups : 0; }
  int alignment() const { return kv == KvFormat::int4_rows ? 4 : 16; }  ///< of addresses and strides, in bytes
  std::string_view type() const;                                        ///< "BF16", "F16", "U8", "I8" or "F8_…"
};

template <class Descriptor>
RowFormat format_of(const Descriptor& descriptor) {
  return {descriptor.head_dim, descriptor.kv, descriptor.groups, descriptor.scales, descriptor.scale_type};
}

/// The fields kv, groups, scales and scale_type.
template <class Descriptor>
std::vector<Field<Descriptor>> format_fields() {
  return {
      word_field<Descriptor, KvFormat>(
          {"kv", "bf16, fp16, int4_rows, int8_split, fp8_e4m3, fp8_e5m2", "bf16", "format of the KV cache"},
          &Descriptor::kv,
          {{"bf16", KvFormat::bf16},
           {"fp16", KvFormat::fp16},
           {"int4_rows", KvFormat::int4_rows},
           {"int8_split", KvFormat::int8_split},
           {"fp8_e4m3", KvFormat::fp8_e4m3},
           {"fp8_e5m2", KvFormat::fp8_e5m2}}),
      number_field<Descriptor>(
          {"groups", "1, 2, 4, 8", "1",
           "groups of a row that have a scale each (int4_rows and scales=group only), of a multiple of 16 channels"},
          &Descriptor::groups, {1, 2, 4, 8}),
      word_field<Descriptor, KvScales>({"scales", "head, token, tensor, group", "head",
                                        "what has a scale of its own (int8_split, fp8_e4m3, fp8_e5m2 only): a token's "
                                        "KV head, a token, all, a group"},
                                       &Descriptor::scales,
                                       {{"head", KvScales::head},
                                        {"token", KvScales::token},
                                        {"tensor", KvScales::tensor},
                                        {"group", KvScales::group}}),
      word_field<Descriptor, ScaleType>({"scale_type", "fp32, fp16", "fp32", "type of those scales"},
                                        &Descriptor::scale_type,
                                        {{"fp32", ScaleType::fp32}, {"fp16", ScaleType::fp16}}),
  };
}

template <class Descriptor>
Field<Descriptor> addressing_field() {
  return word_field<Descriptor, KvAddressing>(
      {"cache", "contiguous, paged", "contiguous", "one tensor, or pages of 1 to 256 tokens behind a page table"},
      &Descriptor::cache, {{"contiguous", KvAddressing::contiguous}, {"paged", KvAddressing::paged}});
}

/// Rules between the fields of a format. `text`: as it was given, `canonical`: the descriptor's own.
/// Throws Failure(invalid_argument).
void validate_given_fields(const RowFormat& format, std::string_view text);
void validate_format(const RowFormat& format, const std::string& canonical);

/// One row, as formats.md has it: what a kernel must write, bit for bit. `scales`: its `groups` scales, written where the row
/// makes them, else read.
void quantise_row(const RowFormat& format, const float* src, char* dst, char* scales = nullptr);
/// One row of values, each exact.
void dequantise_row(const RowFormat& format, const char* src, double* dst, const char* scales = nullptr);
/// The scale of values up to `peak`, rounded to its type, as it is stored.
void store_scale(const RowFormat& format, float peak, char* dst);
void load_row(Element element, const char* src, int channels, float* dst);
void store_row(Element element, const float* src, int channels, char* dst);

}  // namespace cubit::ops::kv_cache
