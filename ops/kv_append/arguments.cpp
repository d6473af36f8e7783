// The argument table of kv_append: the tensors and numbers of cubit_kv_append_arguments.
#include <cubit/kv_append.h>

#include <utility>

#include "base/lifetime.hpp"
#include "ops/kv_append/kv_append.hpp"
#include "ops/kv_cache/cache_arguments.hpp"

namespace cubit::ops::kv_append {
namespace {

using Struct = cubit_kv_append_arguments;

ArgumentTable make_table() {
  constexpr const char* kRotates = "rotary=interleaved|half_split";
  std::vector<Argument> list = {
      input("key", "BF16, F16", shape("[batch, tokens, kv_heads, head_dim]"), CUBIT_MEMBER(key),
            "new keys; the type follows input")
          .typed_by("input")
          .strided("batch, tokens, kv_heads", CUBIT_MEMBER(key_strides)),
      input("value", "BF16, F16", shape("[batch, tokens, kv_heads, value_dim]"), CUBIT_MEMBER(value),
            "new values; the type follows input")
          .typed_by("input")
          .strided("batch, tokens, kv_heads", CUBIT_MEMBER(value_strides)),
      input("lengths", "I32", shape("[batch]"), CUBIT_MEMBER(lengths),
            "tokens of each sequence that are in the cache already")
          .optional("0 tokens"),
      input("positions", "I32", shape("[batch, tokens]"), CUBIT_MEMBER(positions),
            "the position of each new token, instead of lengths; a token outside the cache is left out")
          .optional("new tokens follow lengths"),
      input("counts", "I32", shape("[batch]"), CUBIT_MEMBER(counts), "how many of a sequence's new tokens exist")
          .optional("all tokens"),
      input("cosines", "F32", shape("[positions, rotary_dim / 2]"), CUBIT_MEMBER(cosines),
            "cosines of the rotary embedding by position, up to the last new token")
          .with(kRotates)
          .strided("positions", CUBIT_MEMBER(rotary_stride))
          .unless(CUBIT_MEMBER(cache.max_length)),
      input("sines", "F32", shape("[positions, rotary_dim / 2]"), CUBIT_MEMBER(sines),
            "sines of the rotary embedding by position, up to the last new token")
          .with(kRotates)
          .strided("positions", CUBIT_MEMBER(rotary_stride))
          .unless(CUBIT_MEMBER(cache.max_length))};
  kv_cache::add_caches(list, offsetof(Struct, cache), ArgumentKind::updated);
  kv_cache::add_scales(list, offsetof(Struct, scales), ArgumentKind::updated,
                       "scales of the rows; written for head and group, read for token and tensor");
  kv_cache::add_cache_numbers(list, offsetof(Struct, cache));
  list.push_back(number("rotary_dim", "int32", CUBIT_MEMBER(rotary_dim),
                        "channels that are rotated, the first of a row: a multiple of 16")
                     .with(kRotates));
  list.push_back(number("batch", "int32", CUBIT_MEMBER(batch), "sequences"));
  list.push_back(number("tokens", "int32", CUBIT_MEMBER(tokens), "new tokens per sequence"));
  return {"cubit_kv_append_arguments", sizeof(Struct), std::move(list)};
}

}  // namespace

const ArgumentTable& arguments() {
  static const auto& table = never_destroyed(make_table());
  return table;
}

}  // namespace cubit::ops::kv_append
