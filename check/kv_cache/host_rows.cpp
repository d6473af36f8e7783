// Implements made-up caches and the bitwise comparison of rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/parallel.hpp"
#include "check/kv_cache/host_cache.hpp"
#include "check/random.hpp"

namespace cubit::check::kv_cache {
float peak_of(Element element, const char* rows, std::int64_t count, int channels) {
  constexpr std::int64_t kEnough = 4096;
  float peak = 0;
  std::vector<float> row(channels);
  for (std::int64_t i = 0; i < std::min(count, kEnough); ++i) {
    load_row(element, rows + i * 2 * channels, channels, row.data());
    for (const float x : row) peak = std::max(peak, std::fabs(x));
  }
  return peak;
}

std::unique_ptr<char[]> random_scales(const RowFormat& format, const CacheShape& shape, float peak,
                                      std::uint64_t seed) {
  Random random(seed);
  const Tensor tensor = dense("scales", format.scale_element(), shape.scale_shape(format), nullptr);
  auto scales = std::make_unique<char[]>(tensor.bytes());
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const auto share = static_cast<float>(0.5 + 0.5 * random.uniform());
    store_scale(format, share * peak, scales.get() + i * format.scale_bytes());
  }
  return scales;
}

RandomCache random_cache(const RowFormat& format, const CacheShape& shape, int pattern, std::uint64_t seed) {
  const std::int64_t count = shape.rows();
  const Element element = format.element();
  auto values = random_rows(element, count, format.head_dim, pattern, seed);
  if (format.is_16bit()) return {std::move(values), nullptr};
  RandomCache cache{std::make_unique_for_overwrite<char[]>(count * format.row_bytes()), nullptr};
  if (format.has_scales())
    cache.scales = random_scales(format, shape, peak_of(element, values.get(), count, format.head_dim), seed);
  // Rows that share a scale only read it.
  const auto quantise = [&](std::int64_t i) {
    std::vector<float> row(format.head_dim);
    load_row(element, values.get() + i * 2 * format.head_dim, format.head_dim, row.data());
    char* const scales =
        format.has_scales() ? cache.scales.get() + shape.scale_index(format, i) * format.scale_bytes() : nullptr;
    quantise_row(format, row.data(), cache.rows.get() + i * format.row_bytes(), scales);
  };
  parallel_for(count, quantise, kRowsOfThread);
  return cache;
}

namespace {

bool is_nan(Element element, const char* src) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, src, 2);
  return std::isnan(to_double(element, bits));
}

/// The index of the first byte that differs, or `bytes` if no byte does.
std::int64_t first_difference(const char* wanted, const char* given, std::int64_t bytes,
                              std::optional<Element> values) {
  for (std::int64_t at = 0; at < bytes;) {
    at = std::mismatch(wanted + at, wanted + bytes, given + at).first - wanted;
    if (at == bytes || !values) return at;
    const std::int64_t value = at / 2 * 2;
    if (!is_nan(*values, wanted + value) || !is_nan(*values, given + value)) return at;
    at = value + 2;
  }
  return bytes;
}

}  // namespace

void compare_rows(const char* name, const CacheShape& shape, std::span<const char> expected, const void* got,
                  std::optional<Element> values, Problem::Comparison& comparison) {
  const std::int64_t rows = shape.rows();
  if (rows == 0) return;
  const std::int64_t row_bytes = static_cast<std::int64_t>(expected.size()) / rows;
  const char* found = static_cast<const char*>(got);
  for (std::int64_t row = 0; row < rows; ++row) {
    const char* wanted = expected.data() + row * row_bytes;
    const char* given = found + row * row_bytes;
    if (std::memcmp(wanted, given, row_bytes) == 0) continue;
    const std::int64_t byte = first_difference(wanted, given, row_bytes, values);
    if (byte == row_bytes || comparison.error++ > 0) continue;
    comparison.worst = fmt::format("{}, {}: byte {} is {:#04x}, not {:#04x}", name, shape.describe(row), byte,
                                   static_cast<unsigned char>(given[byte]), static_cast<unsigned char>(wanted[byte]));
  }
}

}  // namespace cubit::check::kv_cache
