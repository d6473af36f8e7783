#include "ops/kv_cache/cache_arguments.hpp"

#include <cubit/kv_cache.h>

namespace cubit::ops::kv_cache {
namespace {

constexpr const char* kTypes = "BF16, F16, U8, I8, F8_E4M3, F8_E5M2";

/// A member of a struct that lies at `offset` of the argument struct, under its name there: "cache.key".
ArgumentMember nested(std::string_view name, std::size_t offset, ArgumentMember member) {
  return {name, offset + member.offset, member.bytes};
}

ArgumentMember max_length_of(std::size_t cache) {
  using Struct = cubit_kv_cache;
  return nested("cache.max_length", cache, CUBIT_MEMBER(max_length));
}

std::vector<ShapeRule> key_scale_shapes() {
  return {{"cache=contiguous,scales=head", "[batch, max_length or more, kv_heads]"},
          {"cache=contiguous,scales=group", "[batch, max_length or more, kv_heads, groups]"},
          {"cache=contiguous,scales=token", "[batch, max_length or more]"},
          {"cache=paged,scales=head", "[pages, page_size, kv_heads]"},
          {"cache=paged,scales=group", "[pages, page_size, kv_heads, groups]"},
          {"cache=paged,scales=token", "[pages, page_size]"},
          {"scales=tensor", "[1]"}};
}

std::vector<ShapeRule> value_scale_shapes() {
  return {{"cache=contiguous,value_scales=head", "[batch, max_length or more, kv_heads]"},
          {"cache=contiguous,value_scales=group", "[batch, max_length or more, kv_heads, value_groups]"},
          {"cache=contiguous,value_scales=token", "[batch, max_length or more]"},
          {"cache=paged,value_scales=head", "[pages, page_size, kv_heads]"},
          {"cache=paged,value_scales=group", "[pages, page_size, kv_heads, value_groups]"},
          {"cache=paged,value_scales=token", "[pages, page_size]"},
          {"value_scales=tensor", "[1]"}};
}

constexpr const char* kCacheDimensions = "batch|pages, max_length|page_size, kv_heads";

}  // namespace

std::vector<ShapeRule> key_shapes() {
  return {{"cache=paged,kv=int4_rows", "[pages, page_size, kv_heads, 4 * groups + head_dim / 2]"},
          {"cache=paged", "[pages, page_size, kv_heads, head_dim]"},
          {"kv=int4_rows", "[batch, max_length or more, kv_heads, 4 * groups + head_dim / 2]"},
          {"", "[batch, max_length or more, kv_heads, head_dim]"}};
}

std::vector<ShapeRule> value_shapes() {
  return {{"cache=paged,value=int4_rows", "[pages, page_size, kv_heads, 4 * value_groups + value_dim / 2]"},
          {"cache=paged", "[pages, page_size, kv_heads, value_dim]"},
          {"value=int4_rows", "[batch, max_length or more, kv_heads, 4 * value_groups + value_dim / 2]"},
          {"", "[batch, max_length or more, kv_heads, value_dim]"}};
}

void add_caches(std::vector<Argument>& arguments, std::size_t offset, ArgumentKind kind) {
  using Struct = cubit_kv_cache;
  arguments.push_back(tensor(kind, "key_cache", kTypes, key_shapes(), nested("cache.key", offset, CUBIT_MEMBER(key)),
                             "rows of keys; the type follows kv")
                          .typed_by("kv")
                          .strided(kCacheDimensions, nested("cache.key_strides", offset, CUBIT_MEMBER(key_strides)))
                          .unless(max_length_of(offset)));
  arguments.push_back(tensor(kind, "value_cache", kTypes, value_shapes(),
                             nested("cache.value", offset, CUBIT_MEMBER(value)),
                             "rows of values; the type follows value")
                          .typed_by("value")
                          .strided(kCacheDimensions, nested("cache.value_strides", offset, CUBIT_MEMBER(value_strides)))
                          .unless(max_length_of(offset)));
}

void add_scales(std::vector<Argument>& arguments, std::size_t offset, ArgumentKind kind, std::string_view meaning) {
  using Struct = cubit_kv_scales;
  arguments.push_back(tensor(kind, "key_scale", "F32, F16", key_scale_shapes(),
                             nested("scales.key", offset, CUBIT_MEMBER(key)), meaning)
                          .with("kv=int8_split|fp8_e4m3|fp8_e5m2")
                          .typed_by("scale_type")
                          .strided(kCacheDimensions, nested("scales.key_strides", offset, CUBIT_MEMBER(key_strides)))
                          .checked_by_operator());
  arguments.push_back(
      tensor(kind, "value_scale", "F32, F16", value_scale_shapes(), nested("scales.value", offset, CUBIT_MEMBER(value)),
             meaning)
          .with("value=int8_split|fp8_e4m3|fp8_e5m2")
          .typed_by("value_scale_type")
          .strided(kCacheDimensions, nested("scales.value_strides", offset, CUBIT_MEMBER(value_strides)))
          .checked_by_operator());
}

void add_cache_numbers(std::vector<Argument>& arguments, std::size_t offset) {
  using Struct = cubit_kv_cache;
  arguments.push_back(input("page_table", "I32", shape("[batch, ceil(max_length / page_size) or more]"),
                            nested("cache.page_table", offset, CUBIT_MEMBER(page_table)),
                            "the page of every page_size tokens of a sequence; read on the device")
                          .with("cache=paged")
                          .strided("batch", nested("cache.page_table_stride", offset, CUBIT_MEMBER(page_table_stride)))
                          .unless(max_length_of(offset)));
  const auto add = [&](std::string_view name, std::string_view member, const ArgumentMember& found,
                       std::string_view meaning) -> Argument& {
    arguments.push_back(number(name, "int32", nested(member, offset, found), meaning));
    return arguments.back();
  };
  add("kv_heads", "cache.kv_heads", CUBIT_MEMBER(kv_heads), "KV heads of the cache, at least 1");
  add("max_length", "cache.max_length", CUBIT_MEMBER(max_length), "tokens of a sequence that the cache has room for");
  add("page_size", "cache.page_size", CUBIT_MEMBER(page_size), "tokens of a page, 1 to 256").when = "cache=paged";
  add("pages", "cache.pages", CUBIT_MEMBER(pages), "number of pages").when = "cache=paged";
}

}  // namespace cubit::ops::kv_cache
