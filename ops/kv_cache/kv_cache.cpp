// What plans say of rows, and what a launch may be given.
#include "ops/kv_cache/kv_cache.hpp"

#include <fmt/format.h>

#include <limits>

#include "base/error.hpp"
#include "templates/embedded.hpp"

namespace cubit::ops::kv_cache {
namespace {

std::string format_name(const RowFormat& format) {
  if (format.kv == KvFormat::int4_rows) return fmt::format("int4_rows, {} groups", format.groups);
  if (!format.has_scales()) return text_of(format.kv);
  return fmt::format("{}, scales per {}", text_of(format.kv), text_of(format.scales));
}

int row_lanes(int head_dim) { return head_dim <= 64 ? 8 : head_dim <= 128 ? 16 : 32; }

}  // namespace

int rows_per_block(int head_dim) { return kThreads / row_lanes(head_dim); }

void add_format(codegen::PlanHeader& header, const RowFormat& format, const codegen::Architecture& architecture) {
  header.constant("kThreads", kThreads).constant("kHeadDim", format.head_dim);
  if (format.kv == KvFormat::int4_rows) {
    header.include("row_int4.cuh").constant("kGroups", format.groups);
    header.alias("Format", "cubit::RowInt4<kHeadDim, kGroups>");
  } else if (format.has_scales()) {
    header.include("row_split.cuh").constant("kGroups", format.groups).flag("kMakesScales", format.makes_scales());
    if (format.kv == KvFormat::int8_split) {
      header.alias("Code", "cubit::Int8Code");
    } else {
      header.flag("kConvertsFp8", architecture.fp8_conversion);
      header.alias("Code", fmt::format("cubit::Fp8Code<{}, kConvertsFp8>", format.kv == KvFormat::fp8_e4m3 ? 4 : 5));
    }
    header.alias("Format", fmt::format("cubit::RowSplit<Code, {}, kHeadDim, kGroups, kMakesScales>",
                                       format.scale_type == ScaleType::fp32 ? "float" : "cubit::Half"));
  } else {
    header.include("row_16bit.cuh");
    header.alias("Format", fmt::format("cubit::Row16<{}>", device_type(format.element())));
  }
}

void add_addressing(codegen::PlanHeader& header, KvAddressing addressing) {
  const bool paged = addressing == KvAddressing::paged;
  header.include(paged ? "rows_paged.cuh" : "rows_contiguous.cuh");
  header.alias("Rows", paged ? "cubit::PagedRows" : "cubit::ContiguousRows");
}

std::vector<Decision> row_decisions(const RowFormat& format, KvAddressing addressing) {
  const int lanes = row_lanes(format.head_dim);
  std::string lanes_why = "8 channels each: 16 bytes of 16-bit values in one load or store";
  if (8 * lanes > format.head_dim)
    lanes_why +=
        fmt::format("; {} of them idle, so that a row's lanes are a power of two", lanes - format.head_dim / 8);
  return {{"lanes per row", std::to_string(lanes), std::move(lanes_why)},
          {"format", format_name(format), fmt::format("as the descriptor asks: rows of {} bytes", format.row_bytes())},
          {"cache", addressing == KvAddressing::paged ? "paged" : "contiguous",
           addressing == KvAddressing::paged ? "a row's page comes from the table; page size and order are arguments"
                                             : "a row's place follows from strides"},
          {"threads", std::to_string(kThreads),
           "the fewest that fill an SM's 2048 within its 32 blocks: small launches meet many SMs"},
          {"rows per block", std::to_string(rows_per_block(format.head_dim)), "each once, key and value together"}};
}

codegen::KernelSource rows_source(const std::string& descriptor, const char* name, const codegen::PlanHeader& header,
                                  const codegen::Architecture& architecture) {
  return codegen::assemble(descriptor, templates::find(fmt::format("{}.cuh", name)), header.text(), architecture, name,
                           {kThreads, 0}, templates::embedded());
}

void check_cache(const RowFormat& format, KvAddressing addressing, const cubit_kv_cache& cache) {
  require_argument(cache.max_length >= 0, "cache.max_length", "it must not be negative", cache.max_length);
  require_pointer(cache.key != nullptr || cache.max_length == 0, "cache.key");
  require_pointer(cache.value != nullptr || cache.max_length == 0, "cache.value");
  require_alignment("cache.key", cache.key, cache.key_strides, 3, format.element_bytes(), format.alignment());
  require_alignment("cache.value", cache.value, cache.value_strides, 3, format.element_bytes(), format.alignment());
  if (addressing == KvAddressing::contiguous) {
    require_argument(cache.page_size == 0, "cache.page_size", "it must be 0, for the descriptor has cache=contiguous",
                     cache.page_size);
    return;
  }
  require_argument(cache.page_size >= 1 && cache.page_size <= 256, "cache.page_size", "it must be from 1 to 256",
                   cache.page_size);
  require_argument(cache.pages >= 0, "cache.pages", "it must not be negative", cache.pages);
  require_pointer(cache.page_table != nullptr || cache.max_length == 0, "cache.page_table");
  require_alignment("cache.page_table", cache.page_table, &cache.page_table_stride, 1, 4, 4);
}

void check_scales(const RowFormat& format, const cubit_kv_scales& scales, bool needed) {
  if (!format.has_scales()) return;
  needed = needed || format.scales == KvScales::tensor;
  require_pointer(scales.key != nullptr || !needed, "scales.key");
  require_pointer(scales.value != nullptr || !needed, "scales.value");
  const int strides = format.scales == KvScales::tensor ? 0 : format.scales == KvScales::token ? 2 : 3;
  require_alignment("scales.key", scales.key, scales.key_strides, strides, format.scale_bytes(), format.scale_bytes());
  require_alignment("scales.value", scales.value, scales.value_strides, strides, format.scale_bytes(),
                    format.scale_bytes());
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

KvCacheArguments kernel_cache(const RowFormat& format, const cubit_kv_cache& cache, const cubit_kv_scales& scales) {
  KvCacheArguments result{};
  result.key = static_cast<char*>(cache.key);
  result.value = static_cast<char*>(cache.value);
  copy_strides(result.key_strides, cache.key_strides, format.element_bytes());
  copy_strides(result.value_strides, cache.value_strides, format.element_bytes());
  result.kv_heads = divide_by(cache.kv_heads);
  result.max_length = cache.max_length;
  result.pages = cache.pages;
  result.page_table = cache.page_table;
  result.page_table_stride = cache.page_table_stride;
  if (cache.page_size > 0) result.page_size = divide_by(cache.page_size);
  if (format.has_scales()) {
    result.key_scales = static_cast<char*>(scales.key);
    result.value_scales = static_cast<char*>(scales.value);
    copy_scale_strides(format, result.key_scale_strides, scales.key_strides);
    copy_scale_strides(format, result.value_scale_strides, scales.value_strides);
  }
  return result;
}

}  // namespace cubit::ops::kv_cache
