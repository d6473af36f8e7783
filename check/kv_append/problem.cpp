// One concrete case by named tensors, made-up cases, and the reference: which rows a launch writes, bit for bit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "check/kv_append/problem.hpp"
#include "check/kv_cache/rows_problem.hpp"
#include "check/random.hpp"

namespace cubit::check::kv_append {
namespace {

using kv_cache::CacheNumbers;
using kv_cache::CacheShape;
using kv_cache::kCacheNames;
using kv_cache::kRowNames;
using kv_cache::kScaleNames;

/// Of the new keys (0) or values (1).
const char* dimensions_of(const KvAppend& descriptor, std::size_t which) {
  return which == 1 && descriptor.value_dim != 0 ? "[batch, tokens, kv_heads, value_dim]"
                                                 : "[batch, tokens, kv_heads, head_dim]";
}

class KvAppendProblem final : public kv_cache::RowsProblem {
 public:
  /// Checks everything; throws Failure(invalid_argument). `caches`: all that a launch writes, as it is before, or none.
  KvAppendProblem(const KvAppend& descriptor, Tensors inputs, Tensors caches, const CacheNumbers& numbers)
      : RowsProblem(descriptor.cache, kv_cache::formats_of(descriptor), std::move(inputs), std::move(caches)),
        descriptor_(descriptor) {
    check_rows();
    check_positions();
    if (addressing_ == KvAddressing::contiguous && numbers.max_length < 0 && outputs_.list().empty()) check_longest();
    shape_ = kv_cache::cache_shape(addressing_, numbers, batch(), key().shape[2], outputs_.find(kCacheNames[0]),
                                   inputs_.find("page_table"), longest(std::numeric_limits<std::int64_t>::max()));
    check_places();
    check_rotary();
    if (outputs_.list().empty()) {
      for (const std::size_t which : {0, 1})
        outputs_.add_zeros(dense(kCacheNames[which], formats_[which].type(), shape_.shape(formats_[which]), nullptr));
      for (const std::size_t which : {0, 1}) {
        const kv_cache::RowFormat& format = formats_[which];
        if (!format.makes_scales()) continue;
        outputs_.add_zeros(dense(kScaleNames[which], format.scale_element(), shape_.scale_shape(format), nullptr));
      }
    }
    check_caches(outputs_);
    check_scales(outputs_);
  }

  std::size_t bytes_read() const override {
    std::size_t bytes = 2 * stored_tokens() * shape_.kv_heads * (formats_.key.head_dim + formats_.value.head_dim);
    if (rotates()) bytes += stored_tokens() * 4 * rotary_dim();
    bytes += scale_bytes(false);
    return bytes + bytes_of({"lengths", "positions", "counts", "page_table"});
  }
  std::size_t bytes_written() const override { return row_bytes_of(stored_tokens()) + scale_bytes(true); }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    auto arguments = make_arguments<cubit_kv_append_arguments>(device_data);
    std::copy_n(key().strides.begin(), 3, arguments.key_strides);
    std::copy_n(inputs_.find("value")->strides.begin(), 3, arguments.value_strides);
    arguments.lengths = address<const std::int32_t>(device_data, "lengths");
    arguments.positions = address<const std::int32_t>(device_data, "positions");
    arguments.counts = address<const std::int32_t>(device_data, "counts");
    if (rotates()) {
      arguments.cosines = address<const float>(device_data, "cosines");
      arguments.sines = address<const float>(device_data, "sines");
      arguments.rotary_stride = rotary_dim() / 2;
      arguments.rotary_dim = static_cast<std::int32_t>(rotary_dim());
    }
    arguments.tokens = static_cast<std::int32_t>(tokens());
    return bytes_of_struct(arguments);
  }

 private:
  const Tensor& key() const { return *inputs_.find("key"); }
  std::int64_t batch() const { return key().shape[0]; }
  std::int64_t tokens() const { return key().shape[1]; }
  bool rotates() const { return descriptor_.rotary != Rotary::none; }
  std::int64_t rotary_dim() const { return 2 * inputs_.find("cosines")->shape[1]; }
  const CacheShape& output_shape() const override { return shape_; }

  /// Where a token goes; not a position of the cache for one that is left out.
  std::int64_t position(std::int64_t sequence, std::int64_t token) const {
    if (token >= number("counts", sequence, tokens())) return -1;
    if (inputs_.find("positions") != nullptr) return number("positions", sequence * tokens() + token, 0);
    const std::int64_t length = number("lengths", sequence, 0);
    return length < 0 ? -1 : length + token;
  }
  /// Of scales that rows make, or of those that are read.
  std::size_t scale_bytes(bool made) const {
    std::size_t bytes = 0;
    for (const std::size_t which : {0, 1})
      bytes += formats_[which].makes_scales() == made ? scale_bytes_of(which, stored_tokens()) : 0;
    return bytes;
  }
  std::int64_t stored_tokens() const {
    std::int64_t stored = 0;
    for (std::int64_t sequence = 0; sequence < batch(); ++sequence) {
      for (std::int64_t token = 0; token < tokens(); ++token)
        stored += shape_.row(sequence, position(sequence, token), 0) >= 0 ? 1 : 0;
    }
    return stored;
  }

  /// Where the last new token fits, as lengths or positions have it; of those that go beyond `room` tokens none counts.
  std::int64_t longest(std::int64_t room) const {
    std::int64_t most = 0;
    for (std::int64_t item = 0; item < batch() * tokens(); ++item) {
      const std::int64_t end = position(item / tokens(), item % tokens()) + 1;
      if (end <= room) most = std::max(most, end);
    }
    return most;
  }

  void check_rows() const {
    for (const std::size_t which : {0, 1}) {
      const Tensor& tensor = *inputs_.find(kRowNames[which]);
      const char* const dimensions = dimensions_of(descriptor_, which);
      const int channels = formats_[which].head_dim;
      require_element(tensor, descriptor_.input, "input");
      if (tensor.shape.size() != 4) require_shape(tensor, {1, 1, 1, channels}, dimensions);
      require_shape(tensor, {batch(), tokens(), key().shape[2], channels}, dimensions);
    }
    check_kv_heads(key().shape[2]);
    kv_cache::require_most("sequences", batch());
    kv_cache::require_most("new tokens", tokens());
    check_numbers("lengths", {batch()}, "[batch]");
    check_numbers("counts", {batch()}, "[batch]");
    check_numbers("positions", {batch(), tokens()}, "[batch, tokens]");
  }

  void check_positions() const {
    if (inputs_.find("lengths") == nullptr || inputs_.find("positions") == nullptr) return;
    reject("tensors lengths and positions", "where there are positions nothing else says where tokens go",
           "leave one of both out");
  }

  /// Where the tokens alone say how long the caches are.
  void check_longest() const {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    std::int64_t sequence = 0;
    std::int64_t token = 0;
    std::int64_t last = -1;
    for (std::int64_t item = 0; item < batch() * tokens(); ++item) {
      const std::int64_t found = position(item / tokens(), item % tokens());
      if (found <= last) continue;
      sequence = item / tokens();
      token = item % tokens();
      last = found;
    }
    if (last < kMost) return;
    reject(inputs_.find("positions") != nullptr
               ? fmt::format("positions[{}, {}] = {}", sequence, token, last)
               : fmt::format("lengths[{}] = {}", sequence, number("lengths", sequence, 0)),
           fmt::format("token {} of this sequence is the last in a cache of {} tokens, and a launch counts them in 32 "
                       "bits",
                       token, last + 1),
           fmt::format("accepted: up to {} tokens, or max_length, beyond which tokens are left out", kMost));
  }

  /// Which of two tokens of one place its rows are of is for the device to decide.
  void check_places() const {
    if (inputs_.find("positions") == nullptr && !shape_.is_paged()) return;  // one follows another
    struct Place {
      std::int64_t row;
      std::int64_t item;
      auto operator<=>(const Place&) const = default;
    };
    std::vector<Place> places;
    for (std::int64_t item = 0; item < batch() * tokens(); ++item) {
      const std::int64_t row = shape_.row(item / tokens(), position(item / tokens(), item % tokens()), 0);
      if (row >= 0) places.push_back({row, item});
    }
    std::sort(places.begin(), places.end());
    const auto found =
        std::adjacent_find(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.row == b.row; });
    if (found != places.end()) reject_place(found->item, (found + 1)->item);
  }

  /// `first` and `second`, tokens counted over all sequences, have the same rows of the cache.
  [[noreturn]] void reject_place(std::int64_t first, std::int64_t second) const {
    const std::int64_t sequence = second / tokens();
    const std::int64_t token = second % tokens();
    const std::int64_t place = position(sequence, token);
    if (first / tokens() == sequence && position(sequence, first % tokens()) == place) {
      reject(fmt::format("positions[{}, {}] = {}", sequence, token, place),
             fmt::format("token {} of this sequence has that position too", first % tokens()),
             "give each token a position of its own, or one outside the cache where it is to be left out");
    }
    const std::int64_t column = place / shape_.page_size;
    reject(fmt::format("page_table[{}, {}] = {}", sequence, column, shape_.table[sequence * shape_.columns + column]),
           fmt::format("token {} of sequence {} goes to place {} of that page, and so does token {} of sequence {}",
                       token, sequence, place % shape_.page_size, first % tokens(), first / tokens()),
           "give each new token a place of its own");
  }

  void check_rotary() const {
    const Tensor* cosines = inputs_.find("cosines");
    const Tensor* sines = inputs_.find("sines");
    if (!rotates()) {
      if (cosines == nullptr && sines == nullptr) return;
      reject("tensors cosines and sines", "the descriptor has rotary=none",
             "leave them out, or ask for rotary=interleaved or rotary=half_split");
    }
    if (cosines == nullptr || sines == nullptr) {
      reject("a case without cosines and sines", "the descriptor rotates",
             "give both, [positions, rotary_dim / 2] F32, or ask for rotary=none");
    }
    // A model's tables are as long as its longest sequence, whatever the cache has room for.
    const std::int64_t read = longest(shape_.max_length);
    for (const Tensor* tensor : {cosines, sines}) {
      require_type(*tensor, "F32");
      const std::int64_t half = cosines->shape.size() == 2 ? cosines->shape[1] : 0;
      const bool good = half >= 8 && half % 8 == 0 && 2 * half <= descriptor_.head_dim;
      const std::int64_t positions = tensor->shape.empty() ? 0 : tensor->shape[0];
      require_shape(*tensor, {std::max(positions, read), good ? half : descriptor_.head_dim / 2},
                    "[at least the positions up to the last new token, rotary_dim / 2], rotary_dim a multiple of 16 up "
                    "to head_dim");
    }
  }

  std::vector<char> reference(std::size_t which) const override {
    // Keys, values, then the scales of each, where rows make them.
    const Tensor& found = outputs_.list()[which];
    const bool is_value = found.name == kCacheNames[1] || found.name == kScaleNames[1];
    const bool is_scales = which >= 2;
    const kv_cache::RowFormat& format = formats_[is_value ? 1 : 0];
    const int channels = format.head_dim;
    std::vector<char> expected(found.bytes());
    if (!expected.empty()) std::memcpy(expected.data(), found.data, expected.size());
    const auto* rows = static_cast<const char*>(inputs_.find(kRowNames[is_value ? 1 : 0])->data);
    const int scale_bytes = format.groups * format.scale_bytes();
    parallel_for(batch() * tokens(), [&](std::int64_t item) {
      const std::int64_t place = position(item / tokens(), item % tokens());
      std::vector<float> row(channels);
      for (std::int64_t head = 0; head < shape_.kv_heads; ++head) {
        const std::int64_t dst = shape_.row(item / tokens(), place, head);
        if (dst < 0) return;
        const std::int64_t src = (item * shape_.kv_heads + head) * 2 * channels;
        kv_cache::load_row(descriptor_.input, rows + src, channels, row.data());
        if (!is_value && rotates()) rotate(place, row.data());
        std::vector<char> scales(scale_bytes);
        if (format.has_scales() && !format.makes_scales())
          std::memcpy(scales.data(), scales_of(inputs_, is_value ? 1 : 0, dst), scale_bytes);
        std::vector<char> stored(format.row_bytes());
        kv_cache::quantise_row(format, row.data(), stored.data(), scales.data());
        const std::vector<char>& wanted = is_scales ? scales : stored;
        std::copy(wanted.begin(), wanted.end(), expected.data() + dst * static_cast<std::int64_t>(wanted.size()));
      }
    });
    return expected;
  }

  void rotate(std::int64_t place, float* row) const {
    const std::int64_t at = place * rotary_dim() / 2;
    rotate_row(descriptor_.rotary, static_cast<int>(rotary_dim()),
               static_cast<const float*>(inputs_.find("cosines")->data) + at,
               static_cast<const float*>(inputs_.find("sines")->data) + at, row);
  }

  KvAppend descriptor_;
};

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

/// Of the first sequences: an empty one, one whose new tokens end beyond the cache, one of a length that is none, none
/// new.
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

/// Every position at most once per sequence; every fifth token goes nowhere.
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

/// Of base 10000, by position.
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

void rotate_row(Rotary rotary, int rotary_dim, const float* cosines, const float* sines, float* row) {
  for (int pair = 0; pair < rotary_dim / 2; ++pair) {
    const bool interleaved = rotary == Rotary::interleaved;
    float& first = row[interleaved ? 2 * pair : pair];
    float& second = row[interleaved ? 2 * pair + 1 : pair + rotary_dim / 2];
    // Each product has a name, so that no compiler makes one rounding of two.
    const volatile float kept_first = first * cosines[pair];
    const volatile float kept_second = second * cosines[pair];
    const volatile float turned_first = first * sines[pair];
    const volatile float turned_second = second * sines[pair];
    first = kept_first - turned_second;
    second = kept_second + turned_first;
  }
}

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const KvAppend descriptor = parse(text);
  constexpr std::string_view kNames[] = {"key",       "value",       "lengths",      "positions",
                                         "counts",    "cosines",     "sines",        "page_table",
                                         "key_scale", "value_scale", kCacheNames[0], kCacheNames[1]};
  require_names(inputs, kNames, "kv_append");
  CacheNumbers launch;
  for (const auto& [name, value] : numbers) {
    if (launch.set(descriptor.cache, name, value)) continue;
    reject(fmt::format("number {}", name), "kv_append has no such launch argument",
           fmt::format("accepted: {}", CacheNumbers::names(descriptor.cache)));
  }
  Tensors taken;
  for (const std::string_view name : std::span(kNames).first(8)) taken.take(inputs, name);
  for (const std::size_t which : {0, 1}) {
    if (taken.find(kRowNames[which]) != nullptr) continue;
    reject(fmt::format("tensors without {}", kRowNames[which]), "kv_append needs key and value",
           fmt::format("give both, {}", dimensions_of(descriptor, which)));
  }
  // Scales that rows make lie among what is written, others are read.
  std::vector<const char*> written = {kCacheNames[0], kCacheNames[1]};
  for (const std::size_t which : {0, 1}) {
    if (kv_cache::formats_of(descriptor)[which].makes_scales())
      written.push_back(kScaleNames[which]);
    else
      taken.take(inputs, kScaleNames[which]);
  }
  Tensors caches;
  for (const char* name : written) caches.take(inputs, name);
  if (caches.list().size() == 1) {
    reject(fmt::format("{} alone", caches.list()[0].name), "a launch writes both caches", "give both, or neither");
  }
  if (caches.list().size() % written.size() != 0) {
    std::string names = written.front();
    for (std::size_t i = 1; i < written.size(); ++i)
      names += fmt::format("{}{}", i + 1 < written.size() ? ", " : " and ", written[i]);
    reject(fmt::format("{} of {}", caches.list().size(), names), "a launch writes them all",
           fmt::format("give all {}, or none", written.size() == 3 ? "three" : "four"));
  }
  return std::make_unique<KvAppendProblem>(descriptor, std::move(taken), std::move(caches), launch);
}

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
  return std::make_unique<KvAppendProblem>(descriptor, std::move(inputs), Tensors{}, sizes.cache);
}

}  // namespace cubit::check::kv_append
