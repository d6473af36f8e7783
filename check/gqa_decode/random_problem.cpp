// Makes up problems of gqa_decode: ordinary data, and data chosen to be hard. The same seed gives the same bytes on
// every machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "base/error.hpp"
#include "check/gqa_decode/problem.hpp"
#include "check/made_up_data.hpp"
#include "check/random.hpp"

namespace cubit::check::gqa_decode {
namespace {

/// Kinds of cache rows; see random_help().
enum class Pattern { normal, outlier_channels, constant_rows, huge_logit, tiny_values, large_values };
constexpr int kPatterns = 6;

/// At most this many distinct rows are made, and larger caches repeat them. The number is prime, so that sequences
/// differ.
constexpr std::int64_t kDistinctRows = 16381;
constexpr std::int64_t kRepeatedRowsOfThread = 1024;

void fill_row(Pattern pattern, Random& random, bool is_key, std::int64_t index, std::vector<float>& row) {
  for (float& x : row) x = static_cast<float>(random.normal());
  const auto channels = static_cast<std::int64_t>(row.size());
  switch (pattern) {
    case Pattern::normal:
      break;
    case Pattern::outlier_channels:
      for (std::int64_t channel = 3; channel < channels; channel += 29) row[channel] = row[channel] * 4 - 60;
      break;
    case Pattern::constant_rows:
      if (index % 3 != 0) row.assign(row.size(), row[0]);
      break;
    case Pattern::huge_logit:
      if (is_key && index % 97 == 11) {
        for (float& x : row) x = 40;
      }
      break;
    case Pattern::tiny_values:
      for (float& x : row) x *= 1e-4f;
      break;
    case Pattern::large_values:
      for (float& x : row) x *= is_key ? 20.f : 5000.f;
      break;
  }
}

/// The largest magnitude of the next rows. `random` is a copy, so the rows can be made again.
float peak_of_rows(const kv_cache::RowFormat& format, Pattern pattern, bool is_key, Random random) {
  constexpr int kRows = 64;
  std::vector<float> row(format.head_dim);
  float peak = 0;
  for (int i = 0; i < kRows; ++i) {
    fill_row(pattern, random, is_key, i, row);
    for (const float x : row) peak = std::max(peak, std::fabs(x));
  }
  return peak;
}

kv_cache::RandomCache make_cache(const kv_cache::RowFormat& format, const kv_cache::CacheShape& shape, Pattern pattern,
                                 bool is_key, Random& random) {
  const std::int64_t rows = shape.rows();
  const int row_bytes = format.row_bytes();
  kv_cache::RandomCache cache;
  cache.rows = std::make_unique_for_overwrite<char[]>(rows * row_bytes);
  if (format.has_scales()) {
    const float peak = peak_of_rows(format, pattern, is_key, random);
    cache.scales = kv_cache::random_scales(format, shape, peak, is_key ? 1 : 2);
  }
  const auto scales_of = [&](std::int64_t i) {
    return format.has_scales() ? cache.scales.get() + shape.scale_index(format, i) * format.scale_bytes() : nullptr;
  };
  const std::int64_t distinct = std::min(rows, kDistinctRows);
  draw_in_order(random, distinct, format.head_dim, [&](std::int64_t i, Random& draws) {
    std::vector<float> row(format.head_dim);
    fill_row(pattern, draws, is_key, i, row);
    kv_cache::quantise_row(format, row.data(), cache.rows.get() + i * row_bytes, scales_of(i));
  });
  const auto repeat = [&](std::int64_t offset) {
    const std::int64_t i = distinct + offset;
    const std::int64_t source = i % kDistinctRows;
    std::memcpy(cache.rows.get() + i * row_bytes, cache.rows.get() + source * row_bytes, row_bytes);
    if (format.makes_scales()) std::memcpy(scales_of(i), scales_of(source), format.groups * format.scale_bytes());
  };
  parallel_for(rows - distinct, repeat, kRepeatedRowsOfThread);
  return cache;
}

std::unique_ptr<char[]> make_query(const GqaDecode& descriptor, std::int64_t heads, Pattern pattern, Random& random) {
  const std::int64_t count = heads * descriptor.head_dim;
  auto data = std::make_unique<char[]>(2 * count);
  auto* values = reinterpret_cast<std::uint16_t*>(data.get());
  draw_in_order(random, count, 1, [&](std::int64_t i, Random& draws) {
    double x = draws.normal();
    if (pattern == Pattern::tiny_values) x *= 1e-3;
    if (pattern == Pattern::huge_logit) x = std::fabs(x);
    values[i] = from_float(descriptor.query, static_cast<float>(x));
  });
  return data;
}

/// Lengths that all equal the context.
std::unique_ptr<char[]> make_full_lengths(std::int64_t batch, std::int64_t context) {
  auto data = std::make_unique<char[]>(4 * batch);
  std::fill_n(reinterpret_cast<std::int32_t*>(data.get()), batch, static_cast<std::int32_t>(context));
  return data;
}

/// Lengths that are log-uniform in 1 … context. The second sequence is empty and the third one is full, if the batch is
/// large enough.
std::unique_ptr<char[]> make_ragged_lengths(std::int64_t batch, std::int64_t context, Random& random) {
  auto data = std::make_unique<char[]>(4 * batch);
  auto* lengths = reinterpret_cast<std::int32_t*>(data.get());
  for (std::int64_t i = 0; i < batch; ++i) {
    lengths[i] = static_cast<std::int32_t>(std::exp(random.uniform() * std::log(static_cast<double>(context))));
  }
  if (batch > 1) lengths[1] = 0;
  if (batch > 2) lengths[2] = static_cast<std::int32_t>(context);
  return data;
}

/// The slopes of the ALiBi paper (Press et al., "Train Short, Test Long"): 2^(-8 / heads), 2^(-16 / heads) …
std::unique_ptr<char[]> make_slopes(std::int64_t heads) {
  auto data = std::make_unique<char[]>(4 * heads);
  auto* slopes = reinterpret_cast<float*>(data.get());
  for (std::int64_t head = 0; head < heads; ++head)
    slopes[head] = static_cast<float>(std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(heads)));
  return data;
}

/// Random sinks. Every fourth head has no sink, which is -inf.
std::unique_ptr<char[]> make_sinks(std::int64_t heads, Random& random) {
  auto data = std::make_unique<char[]>(4 * heads);
  auto* sinks = reinterpret_cast<float*>(data.get());
  for (std::int64_t head = 0; head < heads; ++head) {
    const auto sink = static_cast<float>(4 * random.normal());
    sinks[head] = head % 4 == 3 ? -std::numeric_limits<float>::infinity() : sink;
  }
  return data;
}

struct Sizes {
  std::int64_t batch = 1;
  std::int64_t context = 1000;  // not a multiple of any stage, so that tail tiles are exercised too
  std::int64_t kv_heads = 1;
  bool lengths = false;  // give the tensor `lengths` even if all sequences are equally long
  bool ragged = false;
  Pattern pattern = Pattern::normal;
  LaunchNumbers launch;
};

Sizes read_sizes(const GqaDecode& descriptor, const Numbers& numbers) {
  Sizes sizes{.launch = LaunchNumbers(descriptor)};
  if (descriptor.soft_cap) sizes.launch.soft_cap = 30;
  if (descriptor.window) sizes.launch.window = 128;
  for (const auto& [name, value] : numbers) {
    if (name == "batch") {
      sizes.batch = whole_number(name, value, 0, 1 << 20);
    } else if (name == "context") {
      sizes.context = whole_number(name, value, 1, 1 << 27);
    } else if (name == "kv_heads") {
      sizes.kv_heads = whole_number(name, value, 1, 4096);
    } else if (name == "lengths") {
      sizes.lengths = whole_number(name, value, 0, 1) != 0;
    } else if (name == "ragged") {
      sizes.ragged = whole_number(name, value, 0, 1) != 0;
    } else if (name == "pattern") {
      sizes.pattern = static_cast<Pattern>(whole_number(name, value, 0, kPatterns - 1));
    } else if (!sizes.launch.set(descriptor, name, value)) {
      throw Failure(Status::invalid_argument, fmt::format("size {}", name),
                    fmt::format("{} has no such size", descriptor.text()),
                    fmt::format("accepted: batch, context, kv_heads, lengths, ragged, pattern, {}",
                                LaunchNumbers::names(descriptor)));
    }
  }
  const double kv_rows = static_cast<double>(sizes.batch) * static_cast<double>(sizes.kv_heads);
  const double row_bytes = descriptor.row_bytes() + descriptor.value_row_bytes();
  const double bytes = kv_rows * static_cast<double>(sizes.context) * row_bytes +
                       2 * kv_rows * descriptor.heads_per_kv * descriptor.query_tokens * descriptor.head_dim;
  require_made_up(fmt::format("a query and a cache of {:.0f} GiB", bytes / (1ULL << 30)), bytes,
                  "ask for a smaller batch, context or kv_heads");
  return sizes;
}

}  // namespace

std::string random_help() {
  return "batch, context (tokens), kv_heads, lengths (1: a tensor, as where ragged, of the context each), ragged (1: "
         "log-uniform lengths), lse, softmax_scale, pattern (0 normal, "
         "1 outlier channels, 2 constant rows, 3 one huge logit, 4 tiny values, 5 large values), page_size and hnd "
         "(where cache=paged), soft_cap (default 30, where soft_cap=true), window and kept_tokens (default 128 and "
         "0, where window=true), splits";
}

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const GqaDecode descriptor = parse(text);
  Sizes sizes = read_sizes(descriptor, numbers);
  Random random(seed);
  const std::int64_t heads = sizes.kv_heads * descriptor.heads_per_kv;
  kv_cache::CacheShape shape{.batch = sizes.batch, .max_length = sizes.context, .kv_heads = sizes.kv_heads};
  Tensors table;
  if (descriptor.cache == KvAddressing::paged) {
    kv_cache::CacheNumbers& pages = sizes.launch.cache;
    if (pages.page_size < 0) pages.page_size = 16;
    if (pages.max_length < 0) pages.max_length = sizes.context;
    kv_cache::add_page_table(table, sizes.batch, sizes.context, pages.page_size, false, seed);
    shape = kv_cache::cache_shape(descriptor.cache, pages, sizes.batch, sizes.kv_heads, nullptr, &table.list()[0], 0);
  }
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  std::unique_ptr<char[]> scales[2];
  Tensors inputs;
  const auto add = [&](const char* name, std::string_view type, std::vector<std::int64_t> extents,
                       std::unique_ptr<char[]> data) {
    inputs.add(dense(name, type, std::move(extents), nullptr), std::move(data));
  };
  add("query", element_type(descriptor.query), query_shape(descriptor, sizes.batch, heads, descriptor.head_dim),
      make_query(descriptor, sizes.batch * descriptor.query_tokens * heads, sizes.pattern, random));
  for (const bool is_key : {true, false}) {
    const kv_cache::RowFormat& format = formats[is_key ? 0 : 1];
    kv_cache::RandomCache cache = make_cache(format, shape, sizes.pattern, is_key, random);
    add(is_key ? "key" : "value", format.type(), shape.shape(format), std::move(cache.rows));
    scales[is_key ? 0 : 1] = std::move(cache.scales);
  }
  if (sizes.ragged) {
    add("lengths", "I32", {sizes.batch}, make_ragged_lengths(sizes.batch, sizes.context, random));
  } else if (sizes.lengths) {
    add("lengths", "I32", {sizes.batch}, make_full_lengths(sizes.batch, sizes.context));
  }
  for (const std::size_t which : {0, 1}) {
    const kv_cache::RowFormat& format = formats[which];
    if (format.has_scales())
      add(kv_cache::kScaleNames[which], format.scale_element(), shape.scale_shape(format), std::move(scales[which]));
  }
  inputs.take(table.list(), "page_table");
  if (descriptor.mask == QueryMask::tree)
    add("mask", "I32", {sizes.batch, descriptor.query_tokens}, make_trees(descriptor, sizes.batch, random));
  if (descriptor.alibi) add("alibi_slopes", "F32", {heads}, make_slopes(heads));
  if (descriptor.sinks) add("sinks", "F32", {heads}, make_sinks(heads, random));
  return std::make_unique<GqaProblem>(descriptor, std::move(inputs), sizes.launch);
}

}  // namespace cubit::check::gqa_decode
