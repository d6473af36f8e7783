// Caches in host memory, for problems: where the rows of a cache lie, made-up caches, and bitwise comparison of rows.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/host_tensors.hpp"
#include "check/kv_cache/row_values.hpp"
#include "check/random_rows.hpp"
#include "ops/kv_cache/kv_cache.hpp"

namespace cubit::check::kv_cache {

inline constexpr const char* kRowNames[] = {"key", "value"};
inline constexpr const char* kCacheNames[] = {"key_cache", "value_cache"};
inline constexpr const char* kScaleNames[] = {"key_scale", "value_scale"};

/// The layout of a problem's caches. Keys and values have the same layout, and both are dense up to padded rows.
struct CacheShape {
  std::int64_t batch = 1;
  std::int64_t max_length = 0;
  std::int64_t kv_heads = 1;
  // Members of a paged cache.
  std::int64_t page_size = 0;
  std::int64_t pages = 0;
  bool heads_outside = false;  ///< a page is [kv_heads, page size, row] ("HND"), not [page size, kv_heads, row]
  const std::int32_t* table = nullptr;  ///< [batch, columns]
  std::int64_t columns = 0;
  /// Whether all tokens share the scales of keys (0) and of values (1): one scale per KV head, or per group of a head.
  std::array<bool, 2> has_scales_of_heads{};
  /// Elements from row to row of keys (0) and of values (1), if rows are padded; 0: rows are not padded.
  std::array<std::int64_t, 2> padded_row{};

  bool is_paged() const { return table != nullptr; }
  std::int64_t rows() const { return (is_paged() ? pages * page_size : batch * max_length) * kv_heads; }
  /// The shape of a cache without padding.
  std::vector<std::int64_t> shape(const RowFormat& format) const;
  const char* dimensions() const;
  /// Elements from row to row.
  std::int64_t row_pitch(const CacheFormats& formats, std::size_t which) const {
    return padded_row[which] != 0 ? padded_row[which] : formats[which].row_elements();
  }
  /// The shape of the tensor of scales, if the format has one.
  std::vector<std::int64_t> scale_shape(const RowFormat& format) const;
  const char* scale_dimensions(const RowFormat& format) const;
  /// The number of a row in the tensor, or -1 if the cache has no such row.
  std::int64_t row(std::int64_t sequence, std::int64_t token, std::int64_t head) const;
  std::int64_t head_of(std::int64_t row) const;
  std::string describe(std::int64_t row) const;  ///< "sequence 1, token 3, head 0", or the page
  /// The launch arguments without the addresses.
  cubit_kv_cache arguments(const CacheFormats& formats) const;
  cubit_kv_scales scale_arguments(const CacheFormats& formats) const;
  /// The index of a row's first scale in the tensor of scales; rows may share a scale. The second overload also knows
  /// scales that all tokens share.
  std::int64_t scale_index(const RowFormat& format, std::int64_t row) const;
  std::int64_t scale_index(const CacheFormats& formats, std::size_t which, std::int64_t row) const;
};

/// The scalar arguments of a launch that say how large a cache is.
struct CacheNumbers {
  std::int64_t max_length = -1;  ///< -1 if it is not given
  std::int64_t page_size = -1;
  std::int64_t pages = -1;
  bool heads_outside = false;

  static std::string names(KvAddressing addressing);
  /// Sets the number `name`. Returns false if the addressing has no number of this name.
  bool set(KvAddressing addressing, std::string_view name, double value);
};

/// Throws Failure(invalid_argument) if `count` does not fit the 32 bits of a launch. `what`: "KV heads".
void require_most(const char* what, std::int64_t count);

/// Checks the scales of keys (0) or values (1): presence, type and shape. `tensor` is null if no scales are given. A
/// single scale has the shape [1] or []. Scales that are read may have the shape [kv_heads] or [kv_heads, groups],
/// which all tokens share; then has_scales_of_heads of `shape` is set. Throws Failure(invalid_argument).
void check_scale_tensor(const CacheFormats& formats, std::size_t which, CacheShape& shape, const Tensor* tensor,
                        bool is_read);

/// The layout of caches of `batch` sequences, from the numbers and the tensors. `key_cache` and `page_table` may be
/// null. Defaults are `longest` tokens, 16 tokens per page, and as many pages as the page table names. Throws
/// Failure(invalid_argument).
CacheShape cache_shape(KvAddressing addressing, const CacheNumbers& numbers, std::int64_t batch, std::int64_t kv_heads,
                       const Tensor* key_cache, const Tensor* page_table, std::int64_t longest);

/// Adds a page table with distinct pages in random order for caches of `context` tokens. `with_gaps`: the last entry of
/// every sequence names no page.
void add_page_table(Tensors& tensors, std::int64_t batch, std::int64_t context, std::int64_t page_size, bool with_gaps,
                    std::uint64_t seed);

/// The rows of a cache, and their scales if the format stores scales in a tensor of their own.
struct RandomCache {
  std::unique_ptr<char[]> rows;
  std::unique_ptr<char[]> scales;
};
/// Quantises random_rows().
RandomCache random_cache(const RowFormat& format, const CacheShape& shape, int pattern, std::uint64_t seed);
/// Random scales for values up to `peak`, for formats whose scales do not follow from the row. Each scale suits a peak
/// between half of `peak` and `peak`.
std::unique_ptr<char[]> random_scales(const RowFormat& format, const CacheShape& shape, float peak, std::uint64_t seed);
/// The largest magnitude among the first 4096 rows.
float peak_of(Element element, const char* rows, std::int64_t count, int channels);
/// Compares two caches row by row. The error counts the rows that differ, and `worst` describes the first of these
/// rows. If `values` is given, rows hold 16-bit values, and any NaN equals any other NaN, because the bits of a NaN
/// depend on the hardware.
void compare_rows(const char* name, const CacheShape& shape, std::span<const char> expected, const void* got,
                  std::optional<Element> values, Problem::Comparison& comparison);

}  // namespace cubit::check::kv_cache
