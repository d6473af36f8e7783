// Plan-header entries, report decisions and argument checks for rows of a KV cache.
#include "ops/kv_cache/kv_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace cubit::ops::kv_cache {
namespace {

std::string format_name(const RowFormat& format) {
  if (format.kv == KvFormat::int4_rows) return fmt::format("int4_rows, {} groups", format.groups);
  if (!format.has_scales()) return text_of(format.kv);
  return fmt::format("{}, scales per {}", text_of(format.kv), text_of(format.scales));
}

std::string_view format_header(const RowFormat& format) {
  if (format.kv == KvFormat::int4_rows) return "kv_format/row_int4.cuh";
  return format.has_scales() ? "kv_format/row_split.cuh" : "kv_format/row_16bit.cuh";
}

/// The type of the role header for keys or values. `channels`: the plan's constant for the number of channels.
std::string format_type(const RowFormat& format, std::string_view channels) {
  if (format.kv == KvFormat::int4_rows) return fmt::format("cubit::RowInt4<{}, {}>", channels, format.groups);
  if (!format.has_scales()) return fmt::format("cubit::Row16<{}>", device_type(format.element()));
  const std::string code = format.kv == KvFormat::int8_split ? "cubit::Int8Code"
                                                             : fmt::format("cubit::Fp8Code<{}, kConvertsFp8>",
                                                                           format.kv == KvFormat::fp8_e4m3 ? 4 : 5);
  return fmt::format("cubit::RowSplit<{}, {}, {}, {}, {}>", code,
                     format.scale_type == ScaleType::fp32 ? "float" : "cubit::Half", channels, format.groups,
                     format.makes_scales());
}

Decision lanes_decision(const CacheFormats& formats) {
  const int lanes = row_lanes(formats);
  std::string why = "8 channels each: 16 bytes of 16-bit values in one load or store";
  const auto idle = [&](const RowFormat& format) { return lanes - format.head_dim / 8; };
  if (formats.key.head_dim != formats.value.head_dim) {
    why += fmt::format("; {} of them idle for keys and {} for values: the same lanes take a row's key and value",
                       idle(formats.key), idle(formats.value));
  } else if (idle(formats.key) > 0) {
    why += fmt::format("; {} of them idle, so that a row's lanes are a power of two", idle(formats.key));
  }
  return {"lanes per row", std::to_string(lanes), std::move(why)};
}

Decision format_decision(const CacheFormats& formats) {
  if (formats.are_alike())
    return {"format", format_name(formats.key),
            fmt::format("as the descriptor asks: rows of {} bytes", formats.key.row_bytes())};
  return {"format", fmt::format("keys {}; values {}", format_name(formats.key), format_name(formats.value)),
          fmt::format("as the descriptor asks: rows of {} and {} bytes", formats.key.row_bytes(),
                      formats.value.row_bytes())};
}

}  // namespace

int row_lanes(const CacheFormats& formats) {
  const int channels = std::max(formats.key.head_dim, formats.value.head_dim);
  return channels <= 64 ? 8 : channels <= 128 ? 16 : 32;
}

int rows_per_block(const CacheFormats& formats) { return one_pass::kThreads / row_lanes(formats); }

void add_formats(codegen::PlanHeader& header, const CacheFormats& formats, const codegen::Architecture& architecture) {
  header.include(format_header(formats.key));
  if (format_header(formats.value) != format_header(formats.key)) header.include(format_header(formats.value));
  header.constant("kThreads", one_pass::kThreads)
      .constant("kHeadDim", formats.key.head_dim)
      .constant("kValueDim", formats.value.head_dim)
      .constant("kLanes", row_lanes(formats))
      .flag("kConvertsFp8", architecture.fp8_conversion)
      .alias("Keys", format_type(formats.key, "kHeadDim"))
      .alias("Values", formats.are_alike() ? "Keys" : format_type(formats.value, "kValueDim"));
}

void add_addressing(codegen::PlanHeader& header, KvAddressing addressing) {
  const bool paged = addressing == KvAddressing::paged;
  header.include(paged ? "kv_format/rows_paged.cuh" : "kv_format/rows_contiguous.cuh");
  header.alias("Rows", paged ? "cubit::PagedRows" : "cubit::ContiguousRows");
}

std::vector<Decision> row_decisions(const CacheFormats& formats, KvAddressing addressing) {
  return {lanes_decision(formats),
          format_decision(formats),
          {"cache", addressing == KvAddressing::paged ? "paged" : "contiguous",
           addressing == KvAddressing::paged ? "a row's page comes from the table; page size and order are arguments"
                                             : "a row's place follows from strides"},
          {"threads", std::to_string(one_pass::kThreads),
           "small blocks let small launches use many SMs; 16 blocks fill an SM's 2048 threads"},
          {"rows per block", std::to_string(rows_per_block(formats)), "each once, key and value together"}};
}

void check_cache(const CacheFormats& formats, KvAddressing addressing, const cubit_kv_cache& cache) {
  require_argument(cache.max_length >= 0, "cache.max_length", "it must not be negative", cache.max_length);
  require_alignment("cache.key", cache.key, cache.key_strides, 3, formats.key.element_bytes(), formats.key.alignment());
  require_alignment("cache.value", cache.value, cache.value_strides, 3, formats.value.element_bytes(),
                    formats.value.alignment());
  if (addressing == KvAddressing::contiguous) {
    require_argument(cache.page_size == 0, "cache.page_size", "it must be 0, for the descriptor has cache=contiguous",
                     cache.page_size);
    require_argument(cache.pages == 0, "cache.pages", "it must be 0, for the descriptor has cache=contiguous",
                     cache.pages);
    return;
  }
  require_argument(cache.page_size >= 1 && cache.page_size <= 256, "cache.page_size", "it must be from 1 to 256",
                   cache.page_size);
  require_argument(cache.pages >= 0, "cache.pages", "it must not be negative", cache.pages);
  require_alignment("cache.page_table", cache.page_table, &cache.page_table_stride, 1, 4, 4);
}

void check_scales(const CacheFormats& formats, const cubit_kv_scales& scales, bool needed) {
  const auto check = [&](std::size_t which, const char* name, const void* data, const std::int64_t* strides) {
    const RowFormat& format = formats[which];
    if (!format.has_scales()) {
      if (data == nullptr) return;
      throw Failure(Status::invalid_argument, fmt::format("{} at {:#x}", name, reinterpret_cast<std::uintptr_t>(data)),
                    fmt::format("a cache of {} has no scales of their own", text_of(format.kv)),
                    fmt::format("give NULL, or {}", formats.formats_with_scales(which)));
    }
    require_pointer(data != nullptr || !(needed || format.scales == KvScales::tensor), name);
    const int count = format.scales == KvScales::tensor ? 0 : format.scales == KvScales::token ? 2 : 3;
    require_alignment(name, data, strides, count, format.scale_bytes(), format.scale_bytes());
  };
  check(0, "scales.key", scales.key, scales.key_strides);
  check(1, "scales.value", scales.value, scales.value_strides);
}

void check_apart(const char* name, const std::int64_t (&strides)[3], const std::int64_t (&extents)[3],
                 std::int64_t row_elements) {
  WrittenDimension dimensions[] = {
      {name, 0, extents[0], strides[0]}, {name, 1, extents[1], strides[1]}, {name, 2, extents[2], strides[2]}};
  require_apart(dimensions, row_elements);
}

std::uint32_t count_rows(int batch, int tokens, int kv_heads) {
  require_argument(batch >= 0, "batch", "it must not be negative", batch);
  require_argument(tokens >= 0, "tokens", "it must not be negative", tokens);
  require_argument(kv_heads >= 1, "cache.kv_heads", "it must be at least 1", kv_heads);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t in_batch = std::int64_t{batch} * tokens;
  require_argument(in_batch <= kMost, "batch * tokens", "it must be at most 2147483647", in_batch);
  require_argument(in_batch * kv_heads <= kMost, "batch * tokens * cache.kv_heads", "it must be at most 2147483647",
                   in_batch * kv_heads);
  return static_cast<std::uint32_t>(in_batch * kv_heads);
}

void copy_strides(long long (&dst)[3], const std::int64_t (&src)[3], int element_bytes) {
  for (int i = 0; i < 3; ++i) dst[i] = element_bytes * src[i];
}

void copy_scale_strides(const RowFormat& format, long long (&dst)[3], const std::int64_t (&src)[3]) {
  const bool of_rows = format.has_scales() && format.scales != KvScales::tensor;
  const bool of_heads = of_rows && format.scales != KvScales::token;
  const bool is_read[3] = {of_rows, of_rows, of_heads};
  for (int i = 0; i < 3; ++i) dst[i] = is_read[i] ? format.scale_bytes() * src[i] : 0;
}

KvCacheArguments kernel_cache(const CacheFormats& formats, const cubit_kv_cache& cache, const cubit_kv_scales& scales) {
  KvCacheArguments result{};
  result.key = static_cast<char*>(cache.key);
  result.value = static_cast<char*>(cache.value);
  copy_strides(result.key_strides, cache.key_strides, formats.key.element_bytes());
  copy_strides(result.value_strides, cache.value_strides, formats.value.element_bytes());
  result.kv_heads = divide_by(cache.kv_heads);
  result.max_length = cache.max_length;
  result.pages = cache.pages;
  result.page_table = cache.page_table;
  result.page_table_stride = cache.page_table_stride;
  if (cache.page_size > 0) result.page_size = divide_by(cache.page_size);
  result.key_scales = static_cast<char*>(scales.key);
  result.value_scales = static_cast<char*>(scales.value);
  copy_scale_strides(formats.key, result.key_scale_strides, scales.key_strides);
  copy_scale_strides(formats.value, result.value_scale_strides, scales.value_strides);
  return result;
}

}  // namespace cubit::ops::kv_cache
