// The descriptor of the operator kv_gather as a C++ value, and its text.
#pragma once

#include <cubit/kv_gather.h>
#include <cubit/element.hpp>
#include <cubit/kv_cache.hpp>

#include <compare>
#include <optional>
#include <string>

namespace cubit {

/// Reads rows of a KV cache as 16-bit values: the inverse of KvAppend without rotation.
/// Text form: kv_gather:kv=int4_rows,groups=4,output=fp16   (fields at their default are left out)
struct KvGather {
  int head_dim = 128;  ///< channels per head: 64, 80, 96, 112, 128, 160, 192 or 256
  KvFormat kv = KvFormat::bf16;
  int groups = 1;  ///< int4_rows and scales=group only: 1, 2, 4 or 8 per row, of a multiple of 16 channels each
  KvScales scales = KvScales::head;        ///< int8_split, fp8_e4m3 and fp8_e5m2 only
  ScaleType scale_type = ScaleType::fp32;  ///< int8_split, fp8_e4m3 and fp8_e5m2 only
  Element output = Element::bf16;          ///< type of the rows that are written
  KvAddressing cache = KvAddressing::contiguous;
  int value_dim = 0;                             ///< channels of a value, as of head_dim; 0: head_dim
  std::optional<KvFormat> value = {};            ///< format of values; empty: values are stored as keys are
  int value_groups = 1;                          ///< with `value` only: its groups, as `groups` for kv
  KvScales value_scales = KvScales::head;        ///< with `value` only: its scales
  ScaleType value_scale_type = ScaleType::fp32;  ///< with `value` only: the type of its scales

  auto operator<=>(const KvGather&) const = default;

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    std::string fields;
    const auto add = [&](const char* name, const std::string& setting) {
      fields += (fields.empty() ? ":" : ",") + std::string(name) + "=" + setting;
    };
    const KvGather standard;
    if (head_dim != standard.head_dim) add("head_dim", std::to_string(head_dim));
    if (kv != standard.kv) add("kv", text_of(kv));
    if (groups != standard.groups) add("groups", std::to_string(groups));
    if (scales != standard.scales) add("scales", text_of(scales));
    if (scale_type != standard.scale_type) add("scale_type", "fp16");
    add_value_fields(*this, add);
    if (output != standard.output) add("output", "fp16");
    if (cache != standard.cache) add("cache", "paged");
    return "kv_gather" + fields;
  }
};

}  // namespace cubit
