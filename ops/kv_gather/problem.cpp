// One concrete case by named tensors, made-up cases, and the reference: which rows a launch writes, bit for bit.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "ops/kv_gather/kv_gather.hpp"
#include "ops/random.hpp"

namespace cubit::ops::kv_gather {
namespace {

using kv_cache::CacheNumbers;
using kv_cache::CacheShape;
using kv_cache::dense;
using kv_cache::reject;
using kv_cache::RowFormat;
using kv_cache::Tensors;
using kv_cache::whole_number;

constexpr const char* kCacheNames[] = {"key_cache", "value_cache"};
constexpr const char* kRowNames[] = {"key", "value"};
constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

struct LaunchNumbers {
  std::int64_t tokens = -1;  ///< of the outputs; negative: those of the longest sequence
  CacheNumbers cache;
};

class KvGatherProblem final : public Problem {
 public:
  /// Checks everything; throws Failure(invalid_argument).
  KvGatherProblem(const KvGather& descriptor, Tensors inputs, const LaunchNumbers& numbers)
      : descriptor_(descriptor), format_(kv_cache::format_of(descriptor)), inputs_(std::move(inputs)) {
    check(numbers.cache);
    tokens_ = numbers.tokens < 0 ? longest() : numbers.tokens;
    rows_format_.head_dim = descriptor_.head_dim;
    rows_format_.kv = descriptor_.output == Element::bf16 ? KvFormat::bf16 : KvFormat::fp16;
    rows_shape_ = {shape_.batch, tokens_, shape_.kv_heads};
    for (const char* name : kRowNames) {
      Tensor rows = dense(name, rows_format_.type(), rows_shape_.shape(rows_format_), nullptr);
      auto zeros = std::make_unique<char[]>(rows.bytes());
      outputs_.add(std::move(rows), std::move(zeros));
    }
  }

  const std::vector<Tensor>& inputs() const override { return inputs_.list(); }
  const std::vector<Tensor>& outputs() const override { return outputs_.list(); }

  std::size_t bytes_read() const override {
    std::size_t bytes = 2 * gathered_tokens() * shape_.kv_heads * format_.row_bytes();
    for (const char* name : {"from", "to", "page_table"}) {
      if (const Tensor* tensor = inputs_.find(name)) bytes += tensor->bytes();
    }
    return bytes;
  }
  std::size_t bytes_written() const override {
    return 2 * gathered_tokens() * shape_.kv_heads * rows_format_.row_bytes();
  }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    const std::size_t count = inputs_.list().size();
    if (device_data.size() != count + 2) {
      reject(fmt::format("{} device addresses", device_data.size()),
             fmt::format("this problem has {} inputs and 2 outputs", count));
    }
    cubit_kv_gather_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.key = device_data[count];
    arguments.value = device_data[count + 1];
    for (std::int64_t* strides : {arguments.key_strides, arguments.value_strides})
      std::copy_n(outputs_.list()[0].strides.begin(), 3, strides);
    arguments.cache = shape_.arguments(format_);
    arguments.cache.key = inputs_.address<void>(device_data, kCacheNames[0]);
    arguments.cache.value = inputs_.address<void>(device_data, kCacheNames[1]);
    arguments.cache.page_table = inputs_.address<const std::int32_t>(device_data, "page_table");
    arguments.from = inputs_.address<const std::int32_t>(device_data, "from");
    arguments.to = inputs_.address<const std::int32_t>(device_data, "to");
    arguments.batch = static_cast<std::int32_t>(shape_.batch);
    arguments.tokens = static_cast<std::int32_t>(tokens_);
    std::vector<std::byte> bytes(sizeof arguments);
    std::memcpy(bytes.data(), &arguments, sizeof arguments);
    return bytes;
  }

  /// Bit by bit: the error is how many rows differ, those that must not be touched among them.
  Comparison compare(std::span<const void* const> got) const override {
    if (got.size() != 2) reject(fmt::format("{} outputs", got.size()), "kv_gather has key and value");
    Comparison comparison{0, 0, "none"};
    for (const int which : {0, 1}) {
      const std::vector<char> expected = reference(which);
      kv_cache::compare_rows(kRowNames[which], rows_format_, rows_shape_, expected.data(), got[which], comparison);
    }
    return comparison;
  }

 private:
  std::int64_t number(const char* name, std::int64_t sequence, std::int64_t standard) const {
    const Tensor* tensor = inputs_.find(name);
    return tensor == nullptr ? standard : static_cast<const std::int32_t*>(tensor->data)[sequence];
  }
  /// How many of a sequence's first rows are written.
  std::int64_t gathered(std::int64_t sequence, std::int64_t most) const {
    const std::int64_t from = number("from", sequence, 0);
    const std::int64_t to = std::min(number("to", sequence, shape_.max_length), shape_.max_length);
    return from < 0 ? 0 : std::clamp<std::int64_t>(to - from, 0, most);
  }
  std::int64_t gathered_tokens() const {
    std::int64_t sum = 0;
    for (std::int64_t sequence = 0; sequence < shape_.batch; ++sequence) {
      const std::int64_t first = number("from", sequence, 0);
      for (std::int64_t i = 0; i < gathered(sequence, tokens_); ++i)
        sum += shape_.row(sequence, first + i, 0) >= 0 ? 1 : 0;
    }
    return sum;
  }
  std::int64_t longest() const {
    std::int64_t most = 0;
    for (std::int64_t sequence = 0; sequence < shape_.batch; ++sequence)
      most = std::max(most, gathered(sequence, kMostTokens));
    return most;
  }

  void check(const CacheNumbers& numbers) {
    const Tensor& keys = *inputs_.find(kCacheNames[0]);
    const Tensor* table = inputs_.find("page_table");
    const bool is_shaped = keys.shape.size() == 4;
    const bool heads_outside = descriptor_.cache == KvAddressing::paged && numbers.heads_outside;
    std::int64_t batch = is_shaped ? keys.shape[0] : 0;
    if (table != nullptr) batch = table->shape.empty() ? 0 : table->shape[0];
    shape_ = kv_cache::cache_shape(descriptor_.cache, numbers, batch, is_shaped ? keys.shape[heads_outside ? 1 : 2] : 0,
                                   &keys, table, 0);
    for (const char* name : kCacheNames) {
      const Tensor& cache = *inputs_.find(name);
      kv_cache::require_type(cache, format_.type());
      kv_cache::require_shape(cache, shape_.shape(format_), shape_.dimensions());
    }
    if (shape_.kv_heads < 1) reject("a key_cache of no heads", "there must be at least one KV head");
    for (const char* name : {"from", "to"}) {
      const Tensor* tensor = inputs_.find(name);
      if (tensor == nullptr) continue;
      kv_cache::require_type(*tensor, "I32");
      kv_cache::require_shape(*tensor, {shape_.batch}, "[batch]");
    }
  }

  std::vector<char> reference(int which) const {
    const Tensor& rows = outputs_.list()[which];
    std::vector<char> expected(rows.bytes());
    const auto* cache = static_cast<const char*>(inputs_.find(kCacheNames[which])->data);
    parallel_for(shape_.batch * tokens_, [&](std::int64_t item) {
      const std::int64_t sequence = item / tokens_;
      if (item % tokens_ >= gathered(sequence, tokens_)) return;
      const std::int64_t token = number("from", sequence, 0) + item % tokens_;
      if (shape_.row(sequence, token, 0) < 0) return;
      std::vector<float> row(descriptor_.head_dim);
      for (std::int64_t head = 0; head < shape_.kv_heads; ++head) {
        kv_cache::dequantise_row(format_, cache + shape_.row(sequence, token, head) * format_.row_bytes(), row.data());
        char* dst = expected.data() + (item * shape_.kv_heads + head) * rows_format_.row_bytes();
        kv_cache::store_row(descriptor_.output, row.data(), descriptor_.head_dim, dst);
      }
    });
    return expected;
  }

  KvGather descriptor_;
  RowFormat format_;
  RowFormat rows_format_;  ///< of the outputs
  Tensors inputs_;
  Tensors outputs_;
  CacheShape shape_;
  CacheShape rows_shape_;
  std::int64_t tokens_ = 0;
};

struct Sizes {
  std::int64_t batch = 1;
  std::int64_t kv_heads = 1;
  std::int64_t context = 64;
  bool ragged = false;
  int pattern = 0;
  LaunchNumbers launch;
};

Sizes read_sizes(const KvGather& descriptor, const Numbers& numbers) {
  Sizes sizes;
  for (const auto& [name, value] : numbers) {
    if (name == "batch") {
      sizes.batch = whole_number(name, value, 0, 1 << 20);
    } else if (name == "tokens") {
      sizes.launch.tokens = whole_number(name, value, 1, 1 << 24);
    } else if (name == "kv_heads") {
      sizes.kv_heads = whole_number(name, value, 1, 4096);
    } else if (name == "context") {
      sizes.context = whole_number(name, value, 1, 1 << 27);
    } else if (name == "ragged") {
      sizes.ragged = whole_number(name, value, 0, 1) != 0;
    } else if (name == "pattern") {
      sizes.pattern = static_cast<int>(whole_number(name, value, 0, kv_cache::kPatterns - 1));
    } else if (name == "max_length" || !sizes.launch.cache.set(descriptor.cache, name, value)) {
      reject(fmt::format("size {}", name), fmt::format("{} has no such size", descriptor.text()),
             "accepted: batch, tokens, kv_heads, context, page_size and hnd (where it is paged), ragged, pattern");
    }
  }
  sizes.launch.cache.max_length = sizes.context;
  if (descriptor.cache == KvAddressing::paged && sizes.launch.cache.page_size < 0) sizes.launch.cache.page_size = 16;
  const double rows = static_cast<double>(sizes.batch) * static_cast<double>(sizes.kv_heads);
  const auto tokens = static_cast<double>(std::max<std::int64_t>(sizes.launch.tokens, 0) + sizes.context);
  const double bytes = 4 * descriptor.head_dim * rows * tokens;
  if (bytes > 64.0 * (1ULL << 30)) {
    reject(fmt::format("tensors of {:.0f} GiB", bytes / (1ULL << 30)), "made-up data is limited to 64 GiB",
           "ask for a smaller batch, tokens, context or kv_heads");
  }
  return sizes;
}

std::unique_ptr<char[]> random_cache(const RowFormat& format, std::int64_t rows, int pattern, std::uint64_t seed) {
  const Element element = format.kv == KvFormat::bf16 ? Element::bf16 : Element::fp16;
  auto values = kv_cache::random_rows(element, rows, format.head_dim, pattern, seed);
  if (format.kv != KvFormat::int4_rows) return values;
  auto data = std::make_unique<char[]>(rows * format.row_bytes());
  std::vector<float> row(format.head_dim);
  for (std::int64_t i = 0; i < rows; ++i) {
    kv_cache::load_row(element, values.get() + i * 2 * format.head_dim, format.head_dim, row.data());
    kv_cache::quantise_row(format, row.data(), data.get() + i * format.row_bytes());
  }
  return data;
}

/// Of the first sequences: all of one, one that ends beyond the cache, an empty one, one that begins nowhere.
void add_ends(Tensors& tensors, const Sizes& sizes, Random& random) {
  for (const char* name : {"from", "to"}) {
    const bool is_end = *name == 't';
    auto storage = std::make_unique<char[]>(4 * sizes.batch);
    auto* values = reinterpret_cast<std::int32_t*>(storage.get());
    for (std::int64_t i = 0; i < sizes.batch; ++i) {
      values[i] = static_cast<std::int32_t>(random.uniform() * static_cast<double>(sizes.context));
      if (i == 0) values[i] = is_end ? static_cast<std::int32_t>(sizes.context) : 0;
      if (i == 1) values[i] = static_cast<std::int32_t>(is_end ? sizes.context + 9 : sizes.context / 2);
      if (i == 2) values[i] = 3;
      if (i == 3 && !is_end) values[i] = -1;
    }
    tensors.add(dense(name, "I32", {sizes.batch}, nullptr), std::move(storage));
  }
}

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const KvGather descriptor = parse(text);
  constexpr std::string_view kNames[] = {kCacheNames[0], kCacheNames[1], "from", "to", "page_table"};
  for (const Tensor& input : inputs) {
    if (std::find(std::begin(kNames), std::end(kNames), input.name) != std::end(kNames)) continue;
    reject(fmt::format("tensor {}", input.name), "kv_gather has no such input",
           fmt::format("accepted: {}", fmt::join(kNames, ", ")));
  }
  LaunchNumbers launch;
  for (const auto& [name, value] : numbers) {
    if (name == "tokens") {
      launch.tokens = whole_number(name, value, 0, static_cast<double>(kMostTokens));
    } else if (!launch.cache.set(descriptor.cache, name, value)) {
      reject(fmt::format("number {}", name), "kv_gather has no such launch argument",
             fmt::format("accepted: tokens, {}", CacheNumbers::names(descriptor.cache)));
    }
  }
  Tensors taken;
  for (const std::string_view name : kNames) taken.take(inputs, name);
  for (const char* name : kCacheNames) {
    if (taken.find(name) != nullptr) continue;
    reject(fmt::format("tensors without {}", name), "kv_gather needs key_cache and value_cache");
  }
  return std::make_unique<KvGatherProblem>(descriptor, std::move(taken), launch);
}

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const KvGather descriptor = parse(text);
  const RowFormat format = kv_cache::format_of(descriptor);
  const Sizes sizes = read_sizes(descriptor, numbers);
  Random random(seed);
  Tensors inputs;
  const CacheNumbers& cache = sizes.launch.cache;
  CacheShape shape{.batch = sizes.batch, .max_length = sizes.context, .kv_heads = sizes.kv_heads};
  if (descriptor.cache == KvAddressing::paged) {
    kv_cache::add_page_table(inputs, sizes.batch, sizes.context, cache.page_size, sizes.ragged, random.bits());
    shape = kv_cache::cache_shape(descriptor.cache, cache, sizes.batch, sizes.kv_heads, nullptr,
                                  inputs.find("page_table"), 0);
  }
  for (const char* name : kCacheNames) {
    inputs.add(dense(name, format.type(), shape.shape(format), nullptr),
               random_cache(format, shape.rows(), sizes.pattern, random.bits()));
  }
  if (sizes.ragged) add_ends(inputs, sizes, random);
  return std::make_unique<KvGatherProblem>(descriptor, std::move(inputs), sizes.launch);
}

}  // namespace cubit::ops::kv_gather
