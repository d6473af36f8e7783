// One concrete case by named tensors, made-up cases, and the reference: which rows a launch writes, bit for bit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "ops/kv_append/kv_append.hpp"
#include "ops/random.hpp"

namespace cubit::ops::kv_append {
namespace {

using kv_cache::CacheNumbers;
using kv_cache::CacheShape;
using kv_cache::dense;
using kv_cache::reject;
using kv_cache::RowFormat;
using kv_cache::Tensors;
using kv_cache::whole_number;

constexpr const char* kCacheNames[] = {"key_cache", "value_cache"};
constexpr const char* kDimensions = "[batch, tokens, kv_heads, head_dim]";

class KvAppendProblem final : public Problem {
 public:
  /// Checks everything; throws Failure(invalid_argument). `caches`: both, as they are before the launch, or none.
  KvAppendProblem(const KvAppend& descriptor, Tensors inputs, Tensors caches, const CacheNumbers& numbers)
      : descriptor_(descriptor),
        format_(kv_cache::format_of(descriptor)),
        inputs_(std::move(inputs)),
        caches_(std::move(caches)) {
    check_rows();
    shape_ = kv_cache::cache_shape(descriptor_.cache, numbers, batch(), key().shape[2], caches_.find(kCacheNames[0]),
                                   inputs_.find("page_table"), longest());
    check_rotary();
    if (caches_.list().empty()) {
      for (const char* name : kCacheNames) {
        Tensor cache = dense(name, format_.type(), shape_.shape(format_), nullptr);
        auto zeros = std::make_unique<char[]>(cache.bytes());
        caches_.add(std::move(cache), std::move(zeros));
      }
    }
    check_caches();
  }

  const std::vector<Tensor>& inputs() const override { return inputs_.list(); }
  const std::vector<Tensor>& outputs() const override { return caches_.list(); }

  std::size_t bytes_read() const override {
    std::size_t bytes = 2 * stored_tokens() * shape_.kv_heads * 2 * descriptor_.head_dim;
    if (rotates()) bytes += stored_tokens() * 4 * rotary_dim();
    for (const char* name : {"lengths", "positions", "counts", "page_table"}) {
      if (const Tensor* tensor = inputs_.find(name)) bytes += tensor->bytes();
    }
    return bytes;
  }
  std::size_t bytes_written() const override { return 2 * stored_tokens() * shape_.kv_heads * format_.row_bytes(); }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    const std::size_t count = inputs_.list().size();
    if (device_data.size() != count + 2) {
      reject(fmt::format("{} device addresses", device_data.size()),
             fmt::format("this problem has {} inputs and 2 outputs", count));
    }
    cubit_kv_append_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.key = inputs_.address<void>(device_data, "key");
    arguments.value = inputs_.address<void>(device_data, "value");
    for (std::int64_t* strides : {arguments.key_strides, arguments.value_strides})
      std::copy_n(key().strides.begin(), 3, strides);
    arguments.cache = shape_.arguments(format_);
    arguments.cache.key = device_data[count];
    arguments.cache.value = device_data[count + 1];
    arguments.cache.page_table = inputs_.address<const std::int32_t>(device_data, "page_table");
    arguments.lengths = inputs_.address<const std::int32_t>(device_data, "lengths");
    arguments.positions = inputs_.address<const std::int32_t>(device_data, "positions");
    arguments.counts = inputs_.address<const std::int32_t>(device_data, "counts");
    if (rotates()) {
      arguments.cosines = inputs_.address<const float>(device_data, "cosines");
      arguments.sines = inputs_.address<const float>(device_data, "sines");
      arguments.rotary_stride = rotary_dim() / 2;
      arguments.rotary_dim = static_cast<std::int32_t>(rotary_dim());
    }
    arguments.batch = static_cast<std::int32_t>(batch());
    arguments.tokens = static_cast<std::int32_t>(tokens());
    std::vector<std::byte> bytes(sizeof arguments);
    std::memcpy(bytes.data(), &arguments, sizeof arguments);
    return bytes;
  }

  /// Bit by bit: the error is how many rows differ, those that must not be touched among them.
  Comparison compare(std::span<const void* const> got) const override {
    if (got.size() != 2) reject(fmt::format("{} outputs", got.size()), "kv_append has key_cache and value_cache");
    Comparison comparison{0, 0, "none"};
    for (const int which : {0, 1}) {
      const std::vector<char> expected = reference(which);
      kv_cache::compare_rows(kCacheNames[which], format_, shape_, expected.data(), got[which], comparison);
    }
    return comparison;
  }

 private:
  const Tensor& key() const { return *inputs_.find("key"); }
  std::int64_t batch() const { return key().shape[0]; }
  std::int64_t tokens() const { return key().shape[1]; }
  bool rotates() const { return descriptor_.rotary != Rotary::none; }
  std::int64_t rotary_dim() const { return 2 * inputs_.find("cosines")->shape[1]; }
  std::int64_t number(const char* name, std::int64_t index, std::int64_t standard) const {
    const Tensor* tensor = inputs_.find(name);
    return tensor == nullptr ? standard : static_cast<const std::int32_t*>(tensor->data)[index];
  }

  /// Where a token goes; not a position of the cache for one that is left out.
  std::int64_t position(std::int64_t sequence, std::int64_t token) const {
    if (token >= number("counts", sequence, tokens())) return -1;
    if (inputs_.find("positions") != nullptr) return number("positions", sequence * tokens() + token, 0);
    const std::int64_t length = number("lengths", sequence, 0);
    return length < 0 ? -1 : length + token;
  }
  std::int64_t stored_tokens() const {
    std::int64_t stored = 0;
    for (std::int64_t sequence = 0; sequence < batch(); ++sequence) {
      for (std::int64_t token = 0; token < tokens(); ++token)
        stored += shape_.row(sequence, position(sequence, token), 0) >= 0 ? 1 : 0;
    }
    return stored;
  }

  /// Where the last new token fits, as lengths or positions have it.
  std::int64_t longest() const {
    std::int64_t most = 0;
    for (std::int64_t item = 0; item < batch() * tokens(); ++item)
      most = std::max(most, position(item / tokens(), item % tokens()) + 1);
    const Tensor* cosines = inputs_.find("cosines");
    return cosines != nullptr && cosines->shape.size() == 2 ? cosines->shape[0] : most;
  }

  void check_rows() const {
    const std::string_view type = descriptor_.input == Element::bf16 ? "BF16" : "F16";
    for (const char* name : {"key", "value"}) {
      const Tensor& tensor = *inputs_.find(name);
      kv_cache::require_type(tensor, type);
      if (tensor.shape.size() != 4) kv_cache::require_shape(tensor, {1, 1, 1, descriptor_.head_dim}, kDimensions);
      kv_cache::require_shape(tensor, {batch(), tokens(), key().shape[2], descriptor_.head_dim}, kDimensions);
    }
    if (key().shape[2] < 1) reject("a key of no heads", "there must be at least one KV head");
    for (const char* name : {"lengths", "counts", "positions"}) {
      const Tensor* tensor = inputs_.find(name);
      if (tensor == nullptr) continue;
      kv_cache::require_type(*tensor, "I32");
      if (std::string_view(name) == "positions") {
        kv_cache::require_shape(*tensor, {batch(), tokens()}, "[batch, tokens]");
      } else {
        kv_cache::require_shape(*tensor, {batch()}, "[batch]");
      }
    }
  }

  void check_rotary() const {
    const Tensor* cosines = inputs_.find("cosines");
    const Tensor* sines = inputs_.find("sines");
    if (!rotates()) {
      if (cosines == nullptr && sines == nullptr) return;
      reject("tensors cosines and sines", "the descriptor has rotary=none", "ask for interleaved or half_split");
    }
    if (cosines == nullptr || sines == nullptr) reject("a case without cosines and sines", "the descriptor rotates");
    for (const Tensor* tensor : {cosines, sines}) {
      kv_cache::require_type(*tensor, "F32");
      const std::int64_t half = cosines->shape.size() == 2 ? cosines->shape[1] : 0;
      const bool good = half >= 8 && half % 8 == 0 && 2 * half <= descriptor_.head_dim;
      kv_cache::require_shape(*tensor, {shape_.max_length, good ? half : descriptor_.head_dim / 2},
                              "[max_length, rotary_dim / 2], rotary_dim a multiple of 16 up to head_dim");
    }
  }

  void check_caches() const {
    for (const Tensor& cache : caches_.list()) {
      kv_cache::require_type(cache, format_.type());
      kv_cache::require_shape(cache, shape_.shape(format_), shape_.dimensions());
    }
  }

  std::vector<char> reference(int which) const {
    const Tensor& cache = caches_.list()[which];
    std::vector<char> expected(cache.bytes());
    if (!expected.empty()) std::memcpy(expected.data(), cache.data, expected.size());
    const auto* rows = static_cast<const char*>(inputs_.find(which == 0 ? "key" : "value")->data);
    parallel_for(batch() * tokens(), [&](std::int64_t item) {
      const std::int64_t place = position(item / tokens(), item % tokens());
      std::vector<float> row(descriptor_.head_dim);
      for (std::int64_t head = 0; head < shape_.kv_heads; ++head) {
        const std::int64_t dst = shape_.row(item / tokens(), place, head);
        if (dst < 0) return;
        const std::int64_t src = (item * shape_.kv_heads + head) * 2 * descriptor_.head_dim;
        kv_cache::load_row(descriptor_.input, rows + src, descriptor_.head_dim, row.data());
        if (which == 0 && rotates()) rotate(place, row.data());
        kv_cache::quantise_row(format_, row.data(), expected.data() + dst * format_.row_bytes());
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
  RowFormat format_;
  Tensors inputs_;
  Tensors caches_;
  CacheShape shape_;
};

struct Sizes {
  std::int64_t batch = 1;
  std::int64_t tokens = 16;
  std::int64_t kv_heads = 1;
  std::int64_t context = 0;  ///< 0: twice the tokens
  std::int64_t rotary_dim = 0;
  bool ragged = false;
  bool scattered = false;
  int pattern = 0;
  CacheNumbers cache;
};

Sizes read_sizes(const KvAppend& descriptor, const Numbers& numbers) {
  Sizes sizes;
  sizes.rotary_dim = descriptor.head_dim;
  for (const auto& [name, value] : numbers) {
    if (name == "batch") {
      sizes.batch = whole_number(name, value, 0, 1 << 20);
    } else if (name == "tokens") {
      sizes.tokens = whole_number(name, value, 1, 1 << 24);
    } else if (name == "kv_heads") {
      sizes.kv_heads = whole_number(name, value, 1, 4096);
    } else if (name == "context") {
      sizes.context = whole_number(name, value, 1, 1 << 27);
    } else if (name == "rotary_dim" && descriptor.rotary != Rotary::none) {
      sizes.rotary_dim = whole_number(name, value, 16, descriptor.head_dim);
    } else if (name == "ragged") {
      sizes.ragged = whole_number(name, value, 0, 1) != 0;
    } else if (name == "scattered") {
      sizes.scattered = whole_number(name, value, 0, 1) != 0;
    } else if (name == "pattern") {
      sizes.pattern = static_cast<int>(whole_number(name, value, 0, kv_cache::kPatterns - 1));
    } else if (name == "max_length" || !sizes.cache.set(descriptor.cache, name, value)) {
      reject(
          fmt::format("size {}", name), fmt::format("{} has no such size", descriptor.text()),
          "accepted: batch, tokens, kv_heads, context, rotary_dim (where it rotates), page_size and hnd (where it is "
          "paged), ragged, scattered, pattern");
    }
  }
  if (sizes.context == 0) sizes.context = 2 * sizes.tokens;
  sizes.cache.max_length = sizes.context;
  if (descriptor.cache == KvAddressing::paged && sizes.cache.page_size < 0) sizes.cache.page_size = 16;
  const double rows = static_cast<double>(sizes.batch) * static_cast<double>(sizes.kv_heads);
  const double bytes = 4 * descriptor.head_dim * rows * static_cast<double>(sizes.tokens + sizes.context);
  if (bytes > 64.0 * (1ULL << 30)) {
    reject(fmt::format("tensors of {:.0f} GiB", bytes / (1ULL << 30)), "made-up data is limited to 64 GiB",
           "ask for a smaller batch, tokens, context or kv_heads");
  }
  return sizes;
}

void add_numbers(Tensors& tensors, const char* name, std::vector<std::int64_t> shape,
                 const std::vector<std::int32_t>& values) {
  auto storage = std::make_unique<char[]>(4 * values.size());
  if (!values.empty()) std::memcpy(storage.get(), values.data(), 4 * values.size());
  tensors.add(dense(name, "I32", std::move(shape), nullptr), std::move(storage));
}

/// Of the first sequences: an empty one, one whose new tokens end beyond the cache, one of a length that is none, none new.
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
  constexpr std::string_view kNames[] = {"key",    "value",   "lengths", "positions",
                                         "counts", "cosines", "sines",   "page_table"};
  for (const Tensor& input : inputs) {
    const bool known = std::find(std::begin(kNames), std::end(kNames), input.name) != std::end(kNames) ||
                       input.name == kCacheNames[0] || input.name == kCacheNames[1];
    if (known) continue;
    reject(fmt::format("tensor {}", input.name), "kv_append has no such input",
           fmt::format("accepted: {}, key_cache, value_cache", fmt::join(kNames, ", ")));
  }
  CacheNumbers launch;
  for (const auto& [name, value] : numbers) {
    if (launch.set(descriptor.cache, name, value)) continue;
    reject(fmt::format("number {}", name), "kv_append has no such launch argument",
           fmt::format("accepted: {}", CacheNumbers::names(descriptor.cache)));
  }
  Tensors taken;
  for (const std::string_view name : kNames) taken.take(inputs, name);
  for (const char* name : {"key", "value"}) {
    if (taken.find(name) == nullptr) reject(fmt::format("tensors without {}", name), "kv_append needs key and value");
  }
  Tensors caches;
  for (const char* name : kCacheNames) caches.take(inputs, name);
  if (caches.list().size() == 1) {
    reject(fmt::format("{} alone", caches.list()[0].name), "a launch writes both caches", "give both, or neither");
  }
  return std::make_unique<KvAppendProblem>(descriptor, std::move(taken), std::move(caches), launch);
}

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const KvAppend descriptor = parse(text);
  const Sizes sizes = read_sizes(descriptor, numbers);
  Random random(seed);
  Tensors inputs;
  const std::int64_t rows = sizes.batch * sizes.tokens * sizes.kv_heads;
  for (const char* name : {"key", "value"}) {
    Tensor tensor = dense(name, descriptor.input == Element::bf16 ? "BF16" : "F16",
                          {sizes.batch, sizes.tokens, sizes.kv_heads, descriptor.head_dim}, nullptr);
    inputs.add(std::move(tensor),
               kv_cache::random_rows(descriptor.input, rows, descriptor.head_dim, sizes.pattern, random.bits()));
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
  return std::make_unique<KvAppendProblem>(descriptor, std::move(inputs), Tensors{}, sizes.cache);
}

}  // namespace cubit::ops::kv_append
