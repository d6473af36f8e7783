// Rows and caches in host memory, for problems: where a cache's rows lie, made-up data, comparison bit by bit.
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

/// How a problem's caches lie: keys and values alike, dense.
struct CacheShape {
  std::int64_t batch = 1;
  std::int64_t max_length = 0;
  std::int64_t kv_heads = 1;
  // Of a paged cache.
  std::int64_t page_size = 0;
  std::int64_t pages = 0;
  bool heads_outside = false;  ///< a page is [kv_heads, page size, row] ("HND"), not [page size, kv_heads, row]
  const std::int32_t* table = nullptr;  ///< [batch, columns]
  std::int64_t columns = 0;
  /// Whether the scales of keys (0) and of values (1) are one per KV head, or per group of one, for all tokens.
  std::array<bool, 2> has_scales_of_heads{};

  bool is_paged() const { return table != nullptr; }
  std::int64_t rows() const { return (is_paged() ? pages * page_size : batch * max_length) * kv_heads; }
  std::vector<std::int64_t> shape(const RowFormat& format) const;
  const char* dimensions() const;
  /// Of the tensors of scales, where the format has them.
  std::vector<std::int64_t> scale_shape(const RowFormat& format) const;
  const char* scale_dimensions(const RowFormat& format) const;
  /// The number of the row, or -1 for one that does not exist.
  std::int64_t row(std::int64_t sequence, std::int64_t token, std::int64_t head) const;
  std::int64_t head_of(std::int64_t row) const;
  std::string describe(std::int64_t row) const;  ///< "sequence 1, token 3, head 0", or the page
  /// All but the addresses.
  cubit_kv_cache arguments(const CacheFormats& formats) const;
  cubit_kv_scales scale_arguments(const CacheFormats& formats) const;
  /// Among a tensor's scales the first of a row's. For tests and references, so also where rows share them; the second
  /// also where they are of KV heads.
  std::int64_t scale_index(const RowFormat& format, std::int64_t row) const;
  std::int64_t scale_index(const CacheFormats& formats, std::size_t which, std::int64_t row) const;
};

/// What a launch takes beside tensors, to know a cache's shape.
struct CacheNumbers {
  std::int64_t max_length = -1;  ///< -1: not given
  std::int64_t page_size = -1;
  std::int64_t pages = -1;
  bool heads_outside = false;

  static std::string names(KvAddressing addressing);
  /// False if there is no number of this name.
  bool set(KvAddressing addressing, std::string_view name, double value);
};

/// Throws Failure(invalid_argument) for more of `what`, such as "KV heads", than a launch's 32 bits count.
void require_most(const char* what, std::int64_t count);

/// The scales of keys (0) or of values (1), null where none are given: that there are some where the format has them,
/// and their type and shape, which for one number is [1] or []. Of scales that are read, not written, [kv_heads] or
/// [kv_heads, groups] will do where there could be more: then the shape has scales of heads. Throws
/// Failure(invalid_argument).
void check_scale_tensor(const CacheFormats& formats, std::size_t which, CacheShape& shape, const Tensor* tensor,
                        bool is_read);

/// The shape of caches of `batch` sequences. `key_cache` and `page_table` may be null; what neither they nor the
/// numbers say is `longest` tokens, 16 per page, and the pages that the table names. Throws Failure(invalid_argument).
CacheShape cache_shape(KvAddressing addressing, const CacheNumbers& numbers, std::int64_t batch, std::int64_t kv_heads,
                       const Tensor* key_cache, const Tensor* page_table, std::int64_t longest);

/// Distinct pages in random order for caches of `context` tokens. `with_gaps`: every sequence's last page is no page.
void add_page_table(Tensors& tensors, std::int64_t batch, std::int64_t context, std::int64_t page_size, bool with_gaps,
                    std::uint64_t seed);

/// Rows of a cache, and where the format has them their scales.
struct RandomCache {
  std::unique_ptr<char[]> rows;
  std::unique_ptr<char[]> scales;
};
/// The quantised of random_rows().
RandomCache random_cache(const RowFormat& format, const CacheShape& shape, int pattern, std::uint64_t seed);
/// Scales for values up to `peak` that rows do not make: per token between half of that and all of it.
std::unique_ptr<char[]> random_scales(const RowFormat& format, const CacheShape& shape, float peak, std::uint64_t seed);
/// The largest magnitude among the first rows.
float peak_of(Element element, const char* rows, std::int64_t count, int channels);
/// Compares bytes of two caches, row by row: the first that differs is `worst`, the error how many. Of rows of
/// 16-bit `values` a NaN is any NaN, whose bits are the hardware's.
void compare_rows(const char* name, const CacheShape& shape, std::span<const char> expected, const void* got,
                  std::optional<Element> values, Problem::Comparison& comparison);

}  // namespace cubit::check::kv_cache
