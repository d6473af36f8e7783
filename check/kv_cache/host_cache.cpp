// Implements the addressing of a problem's caches: one contiguous tensor, or pages and a page table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "check/kv_cache/host_cache.hpp"
#include "check/random.hpp"

namespace cubit::check::kv_cache {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kUsualPageSize = 16;

/// Checks that a launch number agrees with the extent of the cache's tensor. A negative number is not given.
void require_same(const char* name, std::int64_t number, std::int64_t extent, const Tensor& cache) {
  if (number < 0 || number == extent) return;
  reject(fmt::format("{} = {}", name, number), fmt::format("{} has {} = {}", shape_text(cache), name, extent),
         fmt::format("leave {} out, or give {}", name, extent));
}

/// Sets the number of pages and the page size. They come from the tensor, else from the numbers, else from the page
/// table. The numbers must not contradict the tensor.
void set_pages(CacheShape& shape, const CacheNumbers& numbers, const Tensor* key_cache) {
  if (key_cache != nullptr && key_cache->shape.size() == 4) {
    shape.pages = key_cache->shape[0];
    shape.page_size = key_cache->shape[shape.heads_outside ? 2 : 1];
  } else {
    shape.page_size = numbers.page_size < 0 ? kUsualPageSize : numbers.page_size;
    shape.pages = numbers.pages;
    if (shape.pages < 0) {
      const std::int64_t entries = shape.batch * shape.columns;
      const std::int64_t last = entries == 0 ? -1 : *std::max_element(shape.table, shape.table + entries);
      shape.pages = std::max<std::int64_t>(last + 1, 0);
    }
  }
  if (shape.page_size < 1 ||
      shape.page_size > 256) {  // only a tensor's extent can be out of range; numbers are checked before
    reject(fmt::format("pages of {} tokens", shape.page_size), "a page has 1 to 256 tokens",
           shape.heads_outside
               ? fmt::format("with hnd=1 {} is [pages, kv_heads, page_size, row]: give pages of 1 to 256 tokens, or "
                             "leave hnd=1 out where it is [pages, page_size, kv_heads, row]",
                             key_cache->name)
               : fmt::format("{} is [pages, page_size, kv_heads, row]: give pages of 1 to 256 tokens, or hnd=1 where "
                             "it is [pages, kv_heads, page_size, row]",
                             key_cache->name));
  }
  require_most("pages", shape.pages);
  if (key_cache == nullptr) return;
  require_same("page_size", numbers.page_size, shape.page_size, *key_cache);
  require_same("pages", numbers.pages, shape.pages, *key_cache);
}

}  // namespace

void require_most(const char* what, std::int64_t count) {
  if (count <= kMostTokens) return;
  reject(fmt::format("{} {}", count, what), "a launch counts them in 32 bits",
         fmt::format("accepted: up to {}", kMostTokens));
}

std::vector<std::int64_t> CacheShape::shape(const RowFormat& format) const {
  if (!is_paged()) return {batch, max_length, kv_heads, format.row_elements()};
  if (heads_outside) return {pages, kv_heads, page_size, format.row_elements()};
  return {pages, page_size, kv_heads, format.row_elements()};
}

const char* CacheShape::dimensions() const {
  if (!is_paged()) return "[batch, max_length, kv_heads, row]";
  return heads_outside ? "[pages, kv_heads, page_size, row]" : "[pages, page_size, kv_heads, row]";
}

std::vector<std::int64_t> CacheShape::scale_shape(const RowFormat& format) const {
  if (format.scales == KvScales::tensor) return {1};
  std::vector<std::int64_t> result = shape(format);
  result.pop_back();
  if (format.scales == KvScales::group) result.push_back(format.groups);
  if (format.scales == KvScales::token) result.erase(result.begin() + (is_paged() && heads_outside ? 1 : 2));
  return result;
}

const char* CacheShape::scale_dimensions(const RowFormat& format) const {
  if (format.scales == KvScales::tensor) return "[1]";
  if (format.scales == KvScales::token) return is_paged() ? "[pages, page_size]" : "[batch, max_length]";
  const bool per_group = format.scales == KvScales::group;
  if (!is_paged()) return per_group ? "[batch, max_length, kv_heads, groups]" : "[batch, max_length, kv_heads]";
  if (heads_outside) return per_group ? "[pages, kv_heads, page_size, groups]" : "[pages, kv_heads, page_size]";
  return per_group ? "[pages, page_size, kv_heads, groups]" : "[pages, page_size, kv_heads]";
}

std::int64_t CacheShape::scale_index(const RowFormat& format, std::int64_t row) const {
  if (format.scales == KvScales::tensor) return 0;
  if (format.scales != KvScales::token) return row * format.groups;
  if (!is_paged() || !heads_outside) return row / kv_heads;
  return row / (kv_heads * page_size) * page_size + row % page_size;
}

std::int64_t CacheShape::scale_index(const CacheFormats& formats, std::size_t which, std::int64_t row) const {
  return has_scales_of_heads[which] ? head_of(row) * formats[which].groups : scale_index(formats[which], row);
}

cubit_kv_scales CacheShape::scale_arguments(const CacheFormats& formats) const {
  cubit_kv_scales scales{};
  for (const std::size_t which : {0, 1}) {
    const RowFormat& format = formats[which];
    std::int64_t* const strides = which == 0 ? scales.key_strides : scales.value_strides;
    if (has_scales_of_heads[which]) {
      strides[2] = format.groups;
      continue;
    }
    const std::int64_t heads = format.scales == KvScales::token ? 1 : kv_heads;
    const std::int64_t tokens = is_paged() ? page_size : max_length;
    strides[0] = tokens * heads * format.groups;
    strides[1] = (heads_outside ? 1 : heads) * format.groups;
    strides[2] = (heads_outside ? page_size : 1) * format.groups;
  }
  return scales;
}

std::int64_t CacheShape::row(std::int64_t sequence, std::int64_t token, std::int64_t head) const {
  if (token < 0 || token >= max_length) return -1;
  if (!is_paged()) return (sequence * max_length + token) * kv_heads + head;
  const std::int64_t page = table[sequence * columns + token / page_size];
  if (page < 0 || page >= pages) return -1;
  if (heads_outside) return (page * kv_heads + head) * page_size + token % page_size;
  return (page * page_size + token % page_size) * kv_heads + head;
}

std::int64_t CacheShape::head_of(std::int64_t row) const {
  return is_paged() && heads_outside ? row / page_size % kv_heads : row % kv_heads;
}

std::string CacheShape::describe(std::int64_t row) const {
  const std::int64_t tokens = is_paged() ? page_size : max_length;
  const bool heads_first = is_paged() && heads_outside;
  return fmt::format("{} {}, token {}, head {}", is_paged() ? "page" : "sequence", row / kv_heads / tokens,
                     heads_first ? row % tokens : row / kv_heads % tokens, head_of(row));
}

cubit_kv_cache CacheShape::arguments(const CacheFormats& formats) const {
  cubit_kv_cache cache{};
  for (const std::size_t which : {0, 1}) {
    const std::int64_t row = row_pitch(formats, which);
    std::int64_t* const strides = which == 0 ? cache.key_strides : cache.value_strides;
    strides[2] = heads_outside ? page_size * row : row;
    strides[1] = heads_outside ? row : kv_heads * row;
    strides[0] = (is_paged() ? page_size : max_length) * kv_heads * row;
  }
  cache.kv_heads = static_cast<std::int32_t>(kv_heads);
  cache.max_length = static_cast<std::int32_t>(max_length);
  cache.page_table_stride = columns;
  cache.page_size = static_cast<std::int32_t>(page_size);
  cache.pages = static_cast<std::int32_t>(pages);
  return cache;
}

std::string CacheNumbers::names(KvAddressing addressing) {
  return addressing == KvAddressing::paged ? "max_length, page_size, pages, hnd" : "max_length";
}

bool CacheNumbers::set(KvAddressing addressing, std::string_view name, double value) {
  if (name == "max_length") {
    max_length = whole_number(name, value, 0, static_cast<double>(kMostTokens));
    return true;
  }
  if (addressing == KvAddressing::contiguous) return false;
  if (name == "page_size") {
    page_size = whole_number(name, value, 1, 256);
  } else if (name == "pages") {
    pages = whole_number(name, value, 0, static_cast<double>(kMostTokens));
  } else if (name == "hnd") {
    heads_outside = whole_number(name, value, 0, 1) != 0;
  } else {
    return false;
  }
  return true;
}

void check_scale_tensor(const CacheFormats& formats, std::size_t which, CacheShape& shape, const Tensor* tensor,
                        bool is_read) {
  const RowFormat& format = formats[which];
  const char* const name = kScaleNames[which];
  if (!format.has_scales()) {
    if (tensor == nullptr) return;
    reject(fmt::format("tensor {}", name), fmt::format("a cache of {} has no scales of their own", text_of(format.kv)),
           fmt::format("leave it out, or {}", formats.formats_with_scales(which)));
  }
  if (tensor == nullptr) {
    reject(fmt::format("tensors without {}", name),
           fmt::format("a cache of {} with {}scales={} needs its scales", text_of(format.kv),
                       formats.has_own_fields(which) ? "value_" : "", text_of(format.scales)),
           fmt::format("give {} {} {}", name, shape.scale_dimensions(format), format.scale_element()));
  }
  require_type(*tensor, format.scale_element());
  const std::vector<std::int64_t> usual = shape.scale_shape(format);
  if (tensor->shape == usual) return;
  std::vector<std::int64_t> fewer;  // a single scale may be a tensor without dimensions
  const char* fewer_dimensions = "[]";
  if (format.makes_scales()) {
    fewer.push_back(shape.kv_heads);
    if (format.scales == KvScales::group) fewer.push_back(format.groups);
    fewer_dimensions = format.scales == KvScales::group ? "[kv_heads, groups]" : "[kv_heads]";
  }
  const bool may_be_fewer = is_read && format.scales != KvScales::token;
  if (!may_be_fewer) require_shape(*tensor, usual, shape.scale_dimensions(format));
  if (tensor->shape != fewer) {
    reject(
        shape_text(*tensor),
        fmt::format("it must have the dimensions {} or {}", shape.scale_dimensions(format), fewer_dimensions),
        fmt::format("accepted beside the other tensors: [{}] or [{}]", fmt::join(usual, ", "), fmt::join(fewer, ", ")));
  }
  shape.has_scales_of_heads[which] = format.makes_scales();
}

CacheShape cache_shape(KvAddressing addressing, const CacheNumbers& numbers, std::int64_t batch, std::int64_t kv_heads,
                       const Tensor* key_cache, const Tensor* page_table, std::int64_t longest) {
  require_most("sequences", batch);
  require_most("KV heads", kv_heads);
  CacheShape shape{.batch = batch, .kv_heads = kv_heads};
  if (addressing == KvAddressing::contiguous) {
    if (page_table != nullptr)
      reject("tensor page_table", "the descriptor has cache=contiguous", "leave it out, or ask for cache=paged");
    const bool is_shaped = key_cache != nullptr && key_cache->shape.size() == 4;
    shape.max_length = numbers.max_length >= 0 ? numbers.max_length : is_shaped ? key_cache->shape[1] : longest;
  } else {
    if (page_table == nullptr) {
      reject("tensors without page_table", "the descriptor has cache=paged",
             "give page_table [batch, pages of a sequence] I32, or ask for cache=contiguous");
    }
    require_type(*page_table, "I32");
    require_rank(*page_table, 2, "[batch, pages of a sequence]");
    shape.columns = page_table->shape[1];
    require_shape(*page_table, {batch, shape.columns}, "[batch, pages of a sequence]");
    require_most("pages of a sequence", shape.columns);
    shape.heads_outside = numbers.heads_outside;
    shape.table = static_cast<const std::int32_t*>(page_table->data);
    set_pages(shape, numbers, key_cache);
    const std::int64_t most = shape.columns * shape.page_size;
    shape.max_length = numbers.max_length >= 0 ? numbers.max_length : most;
    if (shape.max_length > most) {
      reject(fmt::format("max_length = {}", shape.max_length),
             fmt::format("the page table has room for {} tokens of a sequence", most),
             fmt::format("accepted: 0 to {}", most));
    }
  }
  require_most("tokens", shape.max_length);
  return shape;
}

void add_page_table(Tensors& tensors, std::int64_t batch, std::int64_t context, std::int64_t page_size, bool with_gaps,
                    std::uint64_t seed) {
  const std::int64_t columns = (context + page_size - 1) / page_size;
  Random random(seed);
  auto storage = std::make_unique<char[]>(4 * batch * columns);
  auto* table = reinterpret_cast<std::int32_t*>(storage.get());
  const std::int64_t entries = batch * columns;
  std::iota(table, table + entries, 0);
  for (std::int64_t i = 0; i + 1 < entries; ++i)
    std::swap(table[i], table[i + static_cast<std::int64_t>(random.bits() % static_cast<std::uint64_t>(entries - i))]);
  if (with_gaps && columns > 1) {
    for (std::int64_t sequence = 0; sequence < batch; ++sequence)
      table[(sequence + 1) * columns - 1] = sequence % 2 == 0 ? -1 : std::numeric_limits<std::int32_t>::min();
  }
  tensors.add(dense("page_table", "I32", {batch, columns}, nullptr), std::move(storage));
}

}  // namespace cubit::check::kv_cache
