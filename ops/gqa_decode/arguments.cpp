// The argument table of gqa_decode: the tensors and numbers of cubit_gqa_decode_arguments.
#include <cubit/gqa_decode.h>

#include <utility>

#include "base/lifetime.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/kv_cache/cache_arguments.hpp"

namespace cubit::ops::gqa_decode {
namespace {

using Struct = cubit_gqa_decode_arguments;

/// The shape of a tensor per query head: with one query token the dimension query_tokens may be left out.
std::vector<ShapeRule> query_shapes(const char* one, const char* several) {
  return {{"query_tokens=1", one}, {"", several}};
}

std::vector<Argument> queries_and_cache() {
  constexpr const char* kDimensions = "batch|pages, max_length|page_size, kv_heads";
  constexpr const char* kCaches = "BF16, F16, U8, I8, F8_E4M3, F8_E5M2";
  return {input("query", "BF16, F16",
                query_shapes("[batch, kv_heads * heads_per_kv, head_dim]",
                             "[batch, query_tokens, kv_heads * heads_per_kv, head_dim]"),
                CUBIT_MEMBER(query), "queries; the type follows query")
              .typed_by("query")
              .strided("batch, kv_heads", CUBIT_MEMBER(query_strides))
              .strided("query_tokens", CUBIT_MEMBER(query_token_stride)),
          input("key", kCaches, kv_cache::key_shapes(), CUBIT_MEMBER(key),
                "rows of keys; the type follows kv; a problem takes rows with padding with the number padded_rows=1")
              .typed_by("kv")
              .strided(kDimensions, CUBIT_MEMBER(key_strides))
              .unless(CUBIT_MEMBER(max_length)),
          input("value", kCaches, kv_cache::value_shapes(), CUBIT_MEMBER(value),
                "rows of values; the type follows value; padding as for key")
              .typed_by("value")
              .strided(kDimensions, CUBIT_MEMBER(value_strides))
              .unless(CUBIT_MEMBER(max_length)),
          input("lengths", "I32", shape("[batch]"), CUBIT_MEMBER(lengths),
                "valid tokens of each sequence; read on the device")
              .optional("all tokens")};
}

std::vector<Argument> options() {
  return {input("page_table", "I32", shape("[batch, ceil(max_length / page_size) or more]"), CUBIT_MEMBER(page_table),
                "the page of every page_size tokens of a sequence; read on the device")
              .with("cache=paged")
              .strided("batch", CUBIT_MEMBER(page_table_stride))
              .unless(CUBIT_MEMBER(max_length)),
          input("mask", "I32", shape("[batch, query_tokens]"), CUBIT_MEMBER(mask),
                "mask words of tree attention: bit j says whether the query token attends to query token j")
              .with("mask=tree")
              .strided("batch", CUBIT_MEMBER(mask_stride)),
          input("alibi_slopes", "F32", shape("[kv_heads * heads_per_kv]"), CUBIT_MEMBER(alibi_slopes), "ALiBi slopes")
              .with("alibi=true"),
          input("sinks", "F32", shape("[kv_heads * heads_per_kv]"), CUBIT_MEMBER(sinks),
                "attention sinks; -inf means no sink")
              .with("sinks=true"),
          input("score_parameters", "any type", shape("[...]"), CUBIT_MEMBER(score_parameters),
                "parameters of the user's modify_score")
              .with("score=!none")
              .optional("NULL"),
          output("output", "BF16, F16",
                 query_shapes("[batch, kv_heads * heads_per_kv, value_dim]",
                              "[batch, query_tokens, kv_heads * heads_per_kv, value_dim]"),
                 CUBIT_MEMBER(output), "the result; the type follows output")
              .typed_by("output|query")
              .strided("batch, kv_heads", CUBIT_MEMBER(output_strides))
              .strided("query_tokens", CUBIT_MEMBER(output_token_stride)),
          output("lse", "F32",
                 query_shapes("[batch, kv_heads * heads_per_kv]", "[batch, query_tokens, kv_heads * heads_per_kv]"),
                 CUBIT_MEMBER(lse), "natural log-sum-exp of the scores; a problem writes it with the number lse=1")
              .optional("not written")};
}

void add_numbers(std::vector<Argument>& list) {
  list.push_back(number("batch", "int32", CUBIT_MEMBER(batch), "sequences"));
  list.push_back(
      number("kv_heads", "int32", CUBIT_MEMBER(kv_heads), "KV heads, at least 1; heads = kv_heads * heads_per_kv"));
  list.push_back(number("max_length", "int32", CUBIT_MEMBER(max_length), "upper bound of every length"));
  list.push_back(number("softmax_scale", "float", CUBIT_MEMBER(softmax_scale),
                        "factor of the scores, usually 1 / sqrt(head_dim), the default of problems")
                     .usually("1 / sqrt(head_dim)"));
  list.push_back(
      number("page_size", "int32", CUBIT_MEMBER(page_size), "tokens of a page, 1 to 256").with("cache=paged"));
  list.push_back(number("soft_cap", "float", CUBIT_MEMBER(soft_cap), "soft cap of the scores").with("soft_cap=true"));
  list.push_back(
      number("window", "int32", CUBIT_MEMBER(window), "tokens of the window, at least 1").with("window=true"));
  list.push_back(number("kept_tokens", "int32", CUBIT_MEMBER(kept_tokens),
                        "first tokens that every query attends to in addition to the window")
                     .with("window=true")
                     .optional("0 tokens"));
  list.push_back(number("splits", "int32", CUBIT_MEMBER(splits), "split-KV factor, for tuning, at most 256")
                     .optional("cubit decides"));
}

ArgumentTable make_table() {
  std::vector<Argument> list = queries_and_cache();
  kv_cache::add_scales(list, offsetof(Struct, scales), ArgumentKind::input,
                       "scales of the rows; all tokens may share scales of shape [kv_heads] or [kv_heads, groups]");
  for (Argument& argument : options()) list.push_back(std::move(argument));
  add_numbers(list);
  return {"cubit_gqa_decode_arguments", sizeof(Struct), std::move(list)};
}

}  // namespace

const ArgumentTable& arguments() {
  static const auto& table = never_destroyed(make_table());
  return table;
}

PointerChecks pointer_checks(const GqaDecode& descriptor) {
  static const auto& help = never_destroyed(help_of(fields()));
  return PointerChecks(arguments(), help, descriptor.text());
}

}  // namespace cubit::ops::gqa_decode
