// Makes up problems of kv_append. The same seed gives the same bytes on every machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "check/kv_append/problem.hpp"
#include "check/random.hpp"

namespace cubit::check::kv_append {
namespace {

using kv_cache::CacheShape;
using kv_cache::kRowNames;
using kv_cache::kScaleNames;

struct Sizes : kv_cache::RowSizes {
  std::int64_t rotary_dim = 0;
  bool scattered = false;
};

Sizes read_sizes(const KvAppend& descriptor, const Numbers& numbers) {
  Sizes sizes;
  sizes.rotary_dim = descriptor.head_dim;
  for (const auto& [name, value] : numbers) {
    if (name == "rotary_dim" && descriptor.rotary != Rotary::none) {
      sizes.rotary_dim = whole_number(name, value, 16, descriptor.head_dim);
    } else if (name == "scattered") {
      sizes.scattered = whole_number(name, value, 0, 1) != 0;
    } else if (!sizes.set(descriptor.cache, name, value)) {
      reject(
          fmt::format("size {}", name), fmt::format("{} has no such size", descriptor.text()),
          "accepted: batch, tokens, kv_heads, context, rotary_dim (where it rotates), page_size and hnd (where it is "
          "paged), ragged, scattered, pattern");
    }
  }
  if (sizes.tokens < 0) sizes.tokens = 16;
  if (sizes.context == 0) sizes.context = 2 * sizes.tokens;
  sizes.settle(descriptor.cache, kv_cache::formats_of(descriptor));
  return sizes;
}

void add_numbers(Tensors& tensors, const char* name, std::vector<std::int64_t> shape,
                 const std::vector<std::int32_t>& values) {
  auto storage = std::make_unique<char[]>(4 * values.size());
  if (!values.empty()) std::memcpy(storage.get(), values.data(), 4 * values.size());
  tensors.add(dense(name, "I32", std::move(shape), nullptr), std::move(storage));
}

/// Random lengths and counts. The first four sequences are special: an empty one, one whose new tokens end beyond the
/// cache, one of a negative length, and one without new tokens.
void add_lengths(Tensors& tensors, const Sizes& sizes, Random& random) {
  std::vector<std::int32_t> lengths(sizes.batch);
  std::vector<std::int32_t> counts(sizes.batch);
  for (std::int64_t i = 0; i < sizes.batch; ++i) {
    lengths[i] = static_cast<std::int32_t>(random.uniform() * static_cast<double>(sizes.context));
    counts[i] = static_cast<std::int32_t>(random.uniform() * static_cast<double>(sizes.tokens + 2));
    if (i < 2) counts[i] = static_cast<std::int32_t>(sizes.tokens);
    if (i == 0) lengths[i] = 0;
    if (i == 1)
      lengths[i] = static_cast<std::int32_t>(std::max<std::int64_t>(0, sizes.context - (sizes.tokens + 1) / 2));
    if (i == 2) lengths[i] = -2;
    if (i == 3) counts[i] = 0;
  }
  add_numbers(tensors, "lengths", {sizes.batch}, lengths);
  add_numbers(tensors, "counts", {sizes.batch}, counts);
}

/// Random positions, each at most once per sequence. Every fifth token is left out.
void add_positions(Tensors& tensors, const Sizes& sizes, Random& random) {
  std::vector<std::int32_t> positions(sizes.batch * sizes.tokens);
  std::vector<std::int32_t> places(std::max(sizes.context, sizes.tokens));
  for (std::int64_t sequence = 0; sequence < sizes.batch; ++sequence) {
    std::iota(places.begin(), places.end(), 0);
    for (std::int64_t token = 0; token < sizes.tokens; ++token) {
      const std::size_t left = places.size() - token;
      std::swap(places[token], places[token + random.bits() % left]);
      const std::int32_t nowhere = token % 2 == 0 ? -1 : std::numeric_limits<std::int32_t>::max();
      positions[sequence * sizes.tokens + token] = token % 5 == 4 ? nowhere : places[token];
    }
  }
  add_numbers(tensors, "positions", {sizes.batch, sizes.tokens}, positions);
}

/// Tables of cosines and sines by position, with base 10000.
void add_rotation(Tensors& tensors, const Sizes& sizes) {
  const std::int64_t pairs = sizes.rotary_dim / 2;
  for (const bool is_sine : {false, true}) {
    auto storage = std::make_unique<char[]>(4 * sizes.context * pairs);
    auto* values = reinterpret_cast<float*>(storage.get());
    for (std::int64_t i = 0; i < sizes.context * pairs; ++i) {
      const double exponent = -static_cast<double>(i % pairs) / static_cast<double>(pairs);
      const std::int64_t position = i / pairs;
      const double angle = static_cast<double>(position) * std::pow(10000.0, exponent);
      values[i] = static_cast<float>(is_sine ? std::sin(angle) : std::cos(angle));
    }
    tensors.add(dense(is_sine ? "sines" : "cosines", "F32", {sizes.context, pairs}, nullptr), std::move(storage));
  }
}

}  // namespace

std::string random_help() {
  return fmt::format(
      "batch, tokens, kv_heads, context (tokens in the cache), rotary_dim, ragged (1: lengths and counts, some "
      "tokens beyond the end), scattered (1: positions, some negative), page_size and hnd (where cache=paged), {}",
      kRowPatternsHelp);
}

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const KvAppend descriptor = parse(text);
  const Sizes sizes = read_sizes(descriptor, numbers);
  Random random(seed);
  Tensors inputs;
  const std::int64_t rows = sizes.batch * sizes.tokens * sizes.kv_heads;
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  for (const std::size_t which : {0, 1}) {
    const int channels = formats[which].head_dim;
    Tensor tensor = dense(kRowNames[which], descriptor.input == Element::bf16 ? "BF16" : "F16",
                          {sizes.batch, sizes.tokens, sizes.kv_heads, channels}, nullptr);
    inputs.add(std::move(tensor), random_rows(descriptor.input, rows, channels, sizes.pattern, random.bits()));
  }
  if (sizes.scattered) {
    add_positions(inputs, sizes, random);
  } else if (sizes.ragged) {
    add_lengths(inputs, sizes, random);
  }
  if (descriptor.rotary != Rotary::none) add_rotation(inputs, sizes);
  if (descriptor.cache == KvAddressing::paged) {
    kv_cache::add_page_table(inputs, sizes.batch, sizes.context, sizes.cache.page_size, sizes.ragged || sizes.scattered,
                             random.bits());
  }
  const CacheShape shape = kv_cache::cache_shape(descriptor.cache, sizes.cache, sizes.batch, sizes.kv_heads, nullptr,
                                                 inputs.find("page_table"), 0);
  for (const std::size_t which : {0, 1}) {
    const kv_cache::RowFormat& format = formats[which];
    if (!format.has_scales() || format.makes_scales()) continue;
    const auto* values = static_cast<const char*>(inputs.find(kRowNames[which])->data);
    const float peak = kv_cache::peak_of(descriptor.input, values, rows, format.head_dim);
    inputs.add(dense(kScaleNames[which], format.scale_element(), shape.scale_shape(format), nullptr),
               kv_cache::random_scales(format, shape, peak, random.bits()));
  }
  return make_problem_of(descriptor, std::move(inputs), {}, sizes.cache);
}

}  // namespace cubit::check::kv_append
