// The argument table of kv_gather: the tensors and numbers of cubit_kv_gather_arguments.
#include <cubit/kv_gather.h>

#include <utility>

#include "base/lifetime.hpp"
#include "ops/kv_cache/cache_arguments.hpp"
#include "ops/kv_gather/kv_gather.hpp"

namespace cubit::ops::kv_gather {
namespace {

using Struct = cubit_kv_gather_arguments;

ArgumentTable make_table() {
  std::vector<Argument> list;
  kv_cache::add_caches(list, offsetof(Struct, cache), ArgumentKind::input);
  kv_cache::add_scales(list, offsetof(Struct, scales), ArgumentKind::input,
                       "scales of the rows; all tokens may share scales of shape [kv_heads] or [kv_heads, groups]");
  list.push_back(input("from", "I32", shape("[batch]"), CUBIT_MEMBER(from), "the first token of each sequence")
                     .optional("token 0"));
  list.push_back(input("to", "I32", shape("[batch]"), CUBIT_MEMBER(to), "one more than the last token of each sequence")
                     .optional("max_length"));
  list.push_back(output("key", "BF16, F16", shape("[batch, tokens, kv_heads, head_dim]"), CUBIT_MEMBER(key),
                        "keys; the type follows output, and rows without a token are zeros")
                     .typed_by("output")
                     .strided("batch, tokens, kv_heads", CUBIT_MEMBER(key_strides)));
  list.push_back(output("value", "BF16, F16", shape("[batch, tokens, kv_heads, value_dim]"), CUBIT_MEMBER(value),
                        "values; the type follows output, and rows without a token are zeros")
                     .typed_by("output")
                     .strided("batch, tokens, kv_heads", CUBIT_MEMBER(value_strides)));
  kv_cache::add_cache_numbers(list, offsetof(Struct, cache));
  list.push_back(number("batch", "int32", CUBIT_MEMBER(batch), "sequences"));
  list.push_back(
      number("tokens", "int32", CUBIT_MEMBER(tokens), "rows per sequence and KV head, at most").usually("max_length"));
  return {"cubit_kv_gather_arguments", sizeof(Struct), std::move(list)};
}

}  // namespace

const ArgumentTable& arguments() {
  static const auto& table = never_destroyed(make_table());
  return table;
}

}  // namespace cubit::ops::kv_gather
