// The descriptor of the operator gqa_decode as a C++ value, and its text.
#pragma once

#include <cubit/gqa_decode.h>
#include <cubit/element.hpp>
#include <cubit/kv_cache.hpp>

#include <compare>
#include <optional>
#include <string>

namespace cubit {

/// Which query tokens a query token sees. Every query token sees all tokens before the first query token.
enum class QueryMask {
  causal,  ///< a query token sees itself and the query tokens before it
  tree,    ///< a tensor says what a query token sees: cubit_gqa_decode_arguments::mask
};

inline const char* text_of(QueryMask mask) { return mask == QueryMask::tree ? "tree" : "causal"; }

/// Attention of one new token per sequence, or of its last few tokens, over a KV cache.
/// Text form: gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4   (fields at their default are left out)
/// Values in another format than keys: gqa_decode:kv=fp8_e4m3,value=int4_rows,value_groups=4
struct GqaDecode {
  int head_dim = 128;    ///< channels per head: 64, 80, 96, 112, 128, 160, 192 or 256; int4_rows not 80, 112
  int heads_per_kv = 1;  ///< query heads that share one KV head: 1 … 64
  KvFormat kv = KvFormat::bf16;
  int groups = 1;  ///< int4_rows and scales=group only: 1, 2, 4 or 8 per row, of a multiple of 16 channels each
  KvScales scales = KvScales::head;        ///< int8_split, fp8_e4m3 and fp8_e5m2 only
  ScaleType scale_type = ScaleType::fp32;  ///< int8_split, fp8_e4m3 and fp8_e5m2 only
  Element query = Element::bf16;
  Element output = Element::bf16;  ///< set it as well as query: only the text form takes the query's type by itself
  KvAddressing cache = KvAddressing::contiguous;
  int query_tokens = 1;                ///< last tokens of every sequence that are queries: 1 … 16
  QueryMask mask = QueryMask::causal;  ///< several query tokens only
  bool soft_cap = false;   ///< scores s become cap * tanh(s / cap); the cap is a launch argument, as all numbers below
  bool alibi = false;      ///< scores get the head's slope * (position - query position)
  std::string score = {};  ///< "name@hash" of a user's score modification, as add_score gives it; empty: none
  bool window = false;     ///< a query sees the last few tokens and the kept tokens
  bool sinks = false;      ///< a number per head joins the softmax's denominator
  /// Divides every address and stride, in bytes, of query, key, value and output: 16, 8 or 4; 0: unpadded_alignment().
  int alignment = 0;
  std::string family = "auto";  ///< kernel family, such as "sm80"; "auto": the one that was measured to be faster
  int value_dim = 0;            ///< channels of a value, as of head_dim; 0: head_dim
  std::optional<KvFormat> value = {};            ///< format of values; empty: values are stored as keys are
  int value_groups = 1;                          ///< with `value` only: its groups, as `groups` for kv
  KvScales value_scales = KvScales::head;        ///< with `value` only: its scales
  ScaleType value_scale_type = ScaleType::fp32;  ///< with `value` only: the type of its scales

  auto operator<=>(const GqaDecode&) const = default;

  /// Bytes of one row of keys; value_row_bytes() has the bytes of one row of values.
  int row_bytes() const { return kv_row_bytes(kv, head_dim, groups); }
  int value_row_bytes() const {
    return kv_row_bytes(value.value_or(kv), value_channels(), value ? value_groups : groups);
  }
  int value_channels() const { return value_dim == 0 ? head_dim : value_dim; }

  /// The default of `alignment`: the largest of 16, 8 and 4 that divides every row of a launch without padding.
  int unpadded_alignment() const {
    const int bits = row_bytes() | value_row_bytes() | 2 * head_dim | 2 * value_channels() | 16;
    return bits & -bits;  // the lowest bit
  }
  /// `alignment`, or its default if it is 0.
  int alignment_bytes() const { return alignment == 0 ? unpadded_alignment() : alignment; }

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    std::string fields;
    const auto add = [&](const char* name, const std::string& setting) {
      fields += (fields.empty() ? ":" : ",") + std::string(name) + "=" + setting;
    };
    const GqaDecode standard;
    if (head_dim != standard.head_dim) add("head_dim", std::to_string(head_dim));
    if (heads_per_kv != standard.heads_per_kv) add("heads_per_kv", std::to_string(heads_per_kv));
    if (kv != standard.kv) add("kv", text_of(kv));
    if (groups != standard.groups) add("groups", std::to_string(groups));
    if (scales != standard.scales) add("scales", text_of(scales));
    if (scale_type != standard.scale_type) add("scale_type", "fp16");
    add_value_fields(*this, add);
    if (query != standard.query) add("query", "fp16");
    if (output != query) add("output", output == Element::fp16 ? "fp16" : "bf16");
    if (cache != standard.cache) add("cache", "paged");
    if (query_tokens != standard.query_tokens) add("query_tokens", std::to_string(query_tokens));
    if (mask != standard.mask) add("mask", text_of(mask));
    if (soft_cap) add("soft_cap", "true");
    if (alibi) add("alibi", "true");
    if (!score.empty()) add("score", score);
    if (window) add("window", "true");
    if (sinks) add("sinks", "true");
    if (alignment_bytes() != unpadded_alignment()) add("alignment", std::to_string(alignment));
    if (family != standard.family) add("family", family);
    return "gqa_decode" + fields;
  }
};

}  // namespace cubit
