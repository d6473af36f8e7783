// The number formats of a KV cache's rows: their sizes, types and scales, and the fields that descriptors have for
// them.
#pragma once

#include <cubit/kv_cache.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/lifetime.hpp"
#include "ops/element/element.hpp"
#include "ops/fields.hpp"

namespace cubit::ops::kv_cache {

/// The format of the row of one token and one KV head.
struct RowFormat {
  int head_dim = 128;
  KvFormat kv = KvFormat::bf16;
  int groups = 1;
  KvScales scales = KvScales::head;
  ScaleType scale_type = ScaleType::fp32;

  bool is_16bit() const { return kv == KvFormat::bf16 || kv == KvFormat::fp16; }
  bool has_scales() const { return cubit::has_scales(kv); }  ///< whether scales are a separate tensor
  /// Whether kv_append computes and writes a row's scales, because the row's values alone determine the scales.
  bool makes_scales() const { return has_scales() && (scales == KvScales::head || scales == KvScales::group); }
  int scale_bytes() const { return scale_type == ScaleType::fp32 ? 4 : 2; }
  std::string_view scale_element() const { return scale_type == ScaleType::fp32 ? "F32" : "F16"; }
  float largest() const;  ///< largest value of a byte: 127, 448 or 57344
  /// Type of the values of 16-bit rows; fp16 for all other formats.
  Element element() const { return kv == KvFormat::bf16 ? Element::bf16 : Element::fp16; }
  int row_bytes() const { return kv_row_bytes(kv, head_dim, groups); }
  int element_bytes() const { return is_16bit() ? 2 : 1; }
  int row_elements() const { return row_bytes() / element_bytes(); }
  int header_bytes() const { return kv == KvFormat::int4_rows ? 4 * groups : 0; }
  int alignment() const { return kv == KvFormat::int4_rows ? 4 : 16; }  ///< bytes that divide addresses and strides
  std::string_view type() const;  ///< type of the row's elements, as safetensors spells it: "BF16", "U8", …

  bool operator==(const RowFormat&) const = default;
};

/// The formats of a cache's keys and values.
struct CacheFormats {
  RowFormat key;
  RowFormat value;

  bool are_alike() const { return key == value; }
  /// Whether keys and values differ at most in the number of channels.
  bool have_one_format() const {
    RowFormat as_keys = value;
    as_keys.head_dim = key.head_dim;
    return as_keys == key;
  }
  const RowFormat& operator[](std::size_t which) const { return which == 0 ? key : value; }  ///< 0: keys, 1: values
  /// Whether the fields `value` and value_… describe this format, instead of kv, groups, scales and scale_type.
  bool has_own_fields(std::size_t which) const { return which == 1 && !have_one_format(); }
  /// The remedy for scales that a format without scales is given: "ask for kv=int8_split, fp8_e4m3 or fp8_e5m2".
  std::string formats_with_scales(std::size_t which) const;
};

/// The formats that a descriptor's fields describe.
template <class Descriptor>
CacheFormats formats_of(const Descriptor& descriptor) {
  const RowFormat key = {descriptor.head_dim, descriptor.kv, descriptor.groups, descriptor.scales,
                         descriptor.scale_type};
  RowFormat value = key;
  if (descriptor.value) {
    value = {descriptor.head_dim, *descriptor.value, descriptor.value_groups, descriptor.value_scales,
             descriptor.value_scale_type};
  }
  if (descriptor.value_dim != 0) value.head_dim = descriptor.value_dim;
  return {key, value};
}

inline constexpr const char* kHeadDims = "64, 80, 96, 112, 128, 160, 192, 256";
inline const std::vector<int>& head_dims() {
  static const auto& dims = never_destroyed(std::vector<int>{64, 80, 96, 112, 128, 160, 192, 256});
  return dims;
}

/// The values `names` of a field, each with its text from text_of.
template <class Value, class... Names>
std::vector<std::pair<std::string_view, Value>> words_of(Names... names) {
  return {{text_of(names), Value(names)}...};
}

/// The words of a field that holds a format. `Value` is KvFormat for keys, and an optional KvFormat for values.
template <class Value>
std::vector<std::pair<std::string_view, Value>> format_words() {
  return words_of<Value>(KvFormat::bf16, KvFormat::fp16, KvFormat::int4_rows, KvFormat::int8_split, KvFormat::fp8_e4m3,
                         KvFormat::fp8_e5m2);
}
inline std::vector<std::pair<std::string_view, KvScales>> scales_words() {
  return words_of<KvScales>(KvScales::head, KvScales::token, KvScales::tensor, KvScales::group);
}
inline constexpr const char* kFormats = "bf16, fp16, int4_rows, int8_split, fp8_e4m3, fp8_e5m2";

/// The fields kv, groups, scales and scale_type of keys, then value_dim, value and the value_… fields of values.
template <class Descriptor>
std::vector<Field<Descriptor>> format_fields() {
  return {
      word_field<Descriptor, KvFormat>({"kv", kFormats, "bf16", "format of the KV cache"}, &Descriptor::kv,
                                       format_words<KvFormat>()),
      number_field<Descriptor>(
          {"groups", "1, 2, 4, 8", "1",
           "groups of a row, each with its own scale and a multiple of 16 channels (int4_rows and scales=group only)"},
          &Descriptor::groups, {1, 2, 4, 8}),
      word_field<Descriptor, KvScales>({"scales", "head, token, tensor, group", "head",
                                        "what shares one scale (int8_split, fp8_e4m3, fp8_e5m2 only): the row of a "
                                        "token and KV head, a token, the whole tensor, or a group of a row"},
                                       &Descriptor::scales, scales_words()),
      word_field<Descriptor, ScaleType>({"scale_type", "fp32, fp16", "fp32", "type of the scales"},
                                        &Descriptor::scale_type,
                                        {{"fp32", ScaleType::fp32}, {"fp16", ScaleType::fp16}}),
      number_field<Descriptor>({"value_dim", kHeadDims, "head_dim", "channels of a value"}, &Descriptor::value_dim,
                               head_dims()),
      word_field<Descriptor, std::optional<KvFormat>>({"value", kFormats, "as kv", "format of values"},
                                                      &Descriptor::value, format_words<std::optional<KvFormat>>()),
      number_field<Descriptor>(
          {"value_groups", "1, 2, 4, 8", "1", "groups of a row of values; only with value, else as groups"},
          &Descriptor::value_groups, {1, 2, 4, 8}),
      word_field<Descriptor, KvScales>(
          {"value_scales", "head, token, tensor, group", "head", "scales of values; only with value, else as scales"},
          &Descriptor::value_scales, scales_words()),
      word_field<Descriptor, ScaleType>(
          {"value_scale_type", "fp32, fp16", "fp32", "type of values' scales; only with value, else as scale_type"},
          &Descriptor::value_scale_type, {{"fp32", ScaleType::fp32}, {"fp16", ScaleType::fp16}}),
  };
}

template <class Descriptor>
Field<Descriptor> addressing_field() {
  return word_field<Descriptor, KvAddressing>(
      {"cache", "contiguous, paged", "contiguous", "one tensor, or pages of 1 to 256 tokens behind a page table"},
      &Descriptor::cache, {{"contiguous", KvAddressing::contiguous}, {"paged", KvAddressing::paged}});
}

/// Check the rules between the fields of formats. validate_given_fields checks which fields `text`, the descriptor as
/// the user wrote it, gives. validate_formats checks their values and names the descriptor by its canonical text. Both
/// throw Failure(invalid_argument).
void validate_given_fields(const CacheFormats& formats, std::string_view text);
void validate_formats(const CacheFormats& formats, const std::string& canonical);

/// Checks these rules for a descriptor that was parsed from `text`, and resets the value_… fields if values are stored
/// as keys are, so that each pair of formats has one canonical text.
template <class Descriptor>
void settle_formats(Descriptor& descriptor, std::string_view text) {
  validate_given_fields(formats_of(descriptor), text);
  if (descriptor.value_dim == descriptor.head_dim) descriptor.value_dim = 0;
  const CacheFormats formats = formats_of(descriptor);
  if (formats.have_one_format()) {
    descriptor.value.reset();
    descriptor.value_groups = 1;
    descriptor.value_scales = KvScales::head;
    descriptor.value_scale_type = ScaleType::fp32;
  }
  validate_formats(formats, descriptor.text());
}

}  // namespace cubit::ops::kv_cache
