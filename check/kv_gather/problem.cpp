// Implements the problem of kv_gather. The reference is exact: it says which rows a launch writes, bit for bit.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "check/kv_cache/rows_problem.hpp"
#include "check/kv_gather/problem.hpp"
#include "check/random.hpp"

namespace cubit::check::kv_gather {
namespace {

using kv_cache::CacheNumbers;
using kv_cache::CacheShape;
using kv_cache::kCacheNames;
using kv_cache::kRowNames;
using kv_cache::kScaleNames;
using kv_cache::RowFormat;

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

struct LaunchNumbers {
  std::int64_t tokens = -1;  ///< token dimension of the outputs; negative: as many as the longest sequence gives
  CacheNumbers cache;
};

class KvGatherProblem final : public kv_cache::RowsProblem {
 public:
  /// Checks all tensors and numbers. Throws Failure(invalid_argument).
  KvGatherProblem(const KvGather& descriptor, Tensors inputs, const LaunchNumbers& numbers)
      : RowsProblem(descriptor.cache, kv_cache::formats_of(descriptor), std::move(inputs), {}),
        descriptor_(descriptor) {
    check(numbers.cache);
    tokens_ = numbers.tokens < 0 ? longest() : numbers.tokens;
    const KvFormat rows = descriptor.output == Element::bf16 ? KvFormat::bf16 : KvFormat::fp16;
    rows_formats_ = {{formats_.key.head_dim, rows}, {formats_.value.head_dim, rows}};
    rows_shape_ = {shape_.batch, tokens_, shape_.kv_heads};
    for (const std::size_t which : {0, 1}) {
      const RowFormat& format = rows_formats_[which];
      outputs_.add_zeros(dense(kRowNames[which], format.type(), rows_shape_.shape(format), nullptr));
    }
  }

  std::size_t bytes_read() const override {
    const std::size_t tokens = gathered_tokens();
    return row_bytes_of(tokens) + scale_bytes_of(0, tokens) + scale_bytes_of(1, tokens) +
           bytes_of({"from", "to", "page_table"});
  }
  std::size_t bytes_written() const override {
    return gathered_tokens() * shape_.kv_heads * (rows_formats_.key.row_bytes() + rows_formats_.value.row_bytes());
  }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    auto arguments = make_arguments<cubit_kv_gather_arguments>(device_data);
    std::copy_n(outputs_.list()[0].strides.begin(), 3, arguments.key_strides);
    std::copy_n(outputs_.list()[1].strides.begin(), 3, arguments.value_strides);
    arguments.from = address<const std::int32_t>(device_data, "from");
    arguments.to = address<const std::int32_t>(device_data, "to");
    arguments.tokens = static_cast<std::int32_t>(tokens_);
    return bytes_of_struct(arguments);
  }

 private:
  const CacheShape& output_shape() const override { return rows_shape_; }

  /// The number of tokens that a sequence gives. Output rows beyond these tokens are zeros.
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
    shape_ = kv_cache::cache_shape(addressing_, numbers, batch, is_shaped ? keys.shape[heads_outside ? 1 : 2] : 0,
                                   &keys, table, 0);
    check_caches(inputs_);
    check_scales(inputs_);
    check_kv_heads(shape_.kv_heads);
    check_numbers("from", {shape_.batch}, dimensions_of("from"));
    check_numbers("to", {shape_.batch}, dimensions_of("to"));
  }

  std::vector<char> reference(std::size_t which) const override {
    const RowFormat& format = formats_[which];
    const Tensor& rows = outputs_.list()[which];
    std::vector<char> expected(rows.bytes());
    const auto* cache = static_cast<const char*>(inputs_.find(kCacheNames[which])->data);
    const auto gather = [&](std::int64_t item) {
      const std::int64_t sequence = item / tokens_;
      if (item % tokens_ >= gathered(sequence, tokens_)) return;
      const std::int64_t token = number("from", sequence, 0) + item % tokens_;
      if (shape_.row(sequence, token, 0) < 0) return;
      std::vector<double> exact(format.head_dim);
      for (std::int64_t head = 0; head < shape_.kv_heads; ++head) {
        const std::int64_t src = shape_.row(sequence, token, head);
        kv_cache::dequantise_row(format, cache + src * format.row_bytes(), exact.data(),
                                 scales_of(inputs_, which, src));
        const std::vector<float> row(exact.begin(), exact.end());
        char* dst = expected.data() + (item * shape_.kv_heads + head) * rows_formats_[which].row_bytes();
        kv_cache::store_row(descriptor_.output, row.data(), format.head_dim, dst);
      }
    };
    parallel_for(shape_.batch * tokens_, gather, kv_cache::kRowsOfThread / shape_.kv_heads + 1);
    return expected;
  }

  std::string dimensions_of(std::string_view name) const {
    return check::dimensions_of(ops::kv_gather::arguments(), help_of(fields()), descriptor_.text(), name);
  }

  KvGather descriptor_;
  kv_cache::CacheFormats rows_formats_;  ///< formats of the outputs
  CacheShape rows_shape_;
  std::int64_t tokens_ = 0;
};

kv_cache::RowSizes read_sizes(const KvGather& descriptor, const Numbers& numbers) {
  kv_cache::RowSizes sizes;
  for (const auto& [name, value] : numbers) {
    if (sizes.set(descriptor.cache, name, value)) continue;
    reject(fmt::format("size {}", name), fmt::format("{} has no such size", descriptor.text()),
           "accepted: batch, tokens, kv_heads, context, page_size and hnd (where it is paged), ragged, pattern");
  }
  if (sizes.context == 0) sizes.context = 64;
  sizes.settle(descriptor.cache, kv_cache::formats_of(descriptor));
  return sizes;
}

/// Random ranges of tokens. The first four sequences are special: a whole one, one that ends beyond the cache, an empty
/// one, and one that begins at a negative position.
void add_ends(Tensors& tensors, const kv_cache::RowSizes& sizes, Random& random) {
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
  const std::vector<std::string_view> names = ops::kv_gather::arguments().input_names();
  require_names(inputs, names, "kv_gather");
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
  for (const std::string_view name : names) taken.take(inputs, name);
  for (const char* name : kCacheNames) {
    if (taken.find(name) != nullptr) continue;
    reject(fmt::format("tensors without {}", name), "kv_gather needs key_cache and value_cache", "give both");
  }
  return std::make_unique<KvGatherProblem>(descriptor, std::move(taken), launch);
}

std::string random_help() {
  return fmt::format(
      "batch, tokens, kv_heads, context (tokens in the cache), ragged (1: from and to), page_size and hnd (where "
      "cache=paged), {}",
      kRowPatternsHelp);
}

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const KvGather descriptor = parse(text);
  const kv_cache::RowSizes sizes = read_sizes(descriptor, numbers);
  Random random(seed);
  Tensors inputs;
  const CacheNumbers& cache = sizes.cache;
  CacheShape shape{.batch = sizes.batch, .max_length = sizes.context, .kv_heads = sizes.kv_heads};
  if (descriptor.cache == KvAddressing::paged) {
    kv_cache::add_page_table(inputs, sizes.batch, sizes.context, cache.page_size, sizes.ragged, random.bits());
    shape = kv_cache::cache_shape(descriptor.cache, cache, sizes.batch, sizes.kv_heads, nullptr,
                                  inputs.find("page_table"), 0);
  }
  for (const std::size_t which : {0, 1}) {
    const RowFormat format = kv_cache::formats_of(descriptor)[which];
    kv_cache::RandomCache made = kv_cache::random_cache(format, shape, sizes.pattern, random.bits());
    inputs.add(dense(kCacheNames[which], format.type(), shape.shape(format), nullptr), std::move(made.rows));
    if (!format.has_scales()) continue;
    inputs.add(dense(kScaleNames[which], format.scale_element(), shape.scale_shape(format), nullptr),
               std::move(made.scales));
  }
  if (sizes.ragged) add_ends(inputs, sizes, random);
  return std::make_unique<KvGatherProblem>(descriptor, std::move(inputs), LaunchNumbers{sizes.tokens, sizes.cache});
}

}  // namespace cubit::check::kv_gather
