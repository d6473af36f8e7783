// Made-up cases: ordinary data, and data chosen to be hard. The same seed gives the same bytes on every machine.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.hpp"
#include "ops/gqa_decode/problem.hpp"
#include "ops/random.hpp"

namespace cubit::ops::gqa_decode {
namespace {

/// What the rows of the cache look like; see random_help().
enum class Pattern { normal, outlier_channels, constant_rows, huge_logit, tiny_values, large_values };
constexpr int kPatterns = 6;

/// Distinct rows are made for at most this many; larger caches repeat them. A prime, so that sequences differ.
constexpr std::int64_t kDistinctRows = 65521;

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

std::unique_ptr<char[]> make_cache(const GqaDecode& descriptor, std::int64_t rows, Pattern pattern, bool is_key,
                                   Random& random) {
  const kv_cache::RowFormat format = kv_cache::format_of(descriptor);
  const int row_bytes = format.row_bytes();
  auto data = std::make_unique<char[]>(rows * row_bytes);
  std::vector<float> row(descriptor.head_dim);
  for (std::int64_t i = 0; i < rows; ++i) {
    char* dst = data.get() + i * row_bytes;
    if (i >= kDistinctRows) {
      std::memcpy(dst, dst - kDistinctRows * row_bytes, row_bytes);
      continue;
    }
    fill_row(pattern, random, is_key, i, row);
    kv_cache::quantise_row(format, row.data(), dst);
  }
  return data;
}

std::unique_ptr<char[]> make_query(const GqaDecode& descriptor, std::int64_t heads, Pattern pattern, Random& random) {
  const std::int64_t count = heads * descriptor.head_dim;
  auto data = std::make_unique<char[]>(2 * count);
  auto* values = reinterpret_cast<std::uint16_t*>(data.get());
  for (std::int64_t i = 0; i < count; ++i) {
    double x = random.normal();
    if (pattern == Pattern::tiny_values) x *= 1e-3;
    if (pattern == Pattern::huge_logit) x = std::fabs(x);
    values[i] = from_float(descriptor.query, static_cast<float>(x));
  }
  return data;
}

/// Log-uniform in 1 … context, with one empty sequence and one full one where there is room for them.
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

std::int64_t whole_number(std::string_view name, double value, double least, double most) {
  if (value >= least && value <= most && value == std::floor(value)) return static_cast<std::int64_t>(value);
  throw Failure(Status::invalid_argument, fmt::format("{} = {}", name, value), "it is not a size that is accepted",
                fmt::format("accepted: whole numbers from {:.0f} to {:.0f}", least, most));
}

struct Sizes {
  std::int64_t batch = 1;
  std::int64_t context = 1024;
  std::int64_t kv_heads = 1;
  bool ragged = false;
  Pattern pattern = Pattern::normal;
  LaunchNumbers launch;
};

Sizes read_sizes(const GqaDecode& descriptor, const Numbers& numbers) {
  Sizes sizes{.launch = LaunchNumbers(descriptor)};
  for (const auto& [name, value] : numbers) {
    if (name == "batch") {
      sizes.batch = whole_number(name, value, 0, 1 << 20);
    } else if (name == "context") {
      sizes.context = whole_number(name, value, 1, 1 << 27);
    } else if (name == "kv_heads") {
      sizes.kv_heads = whole_number(name, value, 1, 4096);
    } else if (name == "ragged") {
      sizes.ragged = whole_number(name, value, 0, 1) != 0;
    } else if (name == "pattern") {
      sizes.pattern = static_cast<Pattern>(whole_number(name, value, 0, kPatterns - 1));
    } else if (!sizes.launch.set(name, value)) {
      throw Failure(Status::invalid_argument, fmt::format("size {}", name), "gqa_decode has no such size",
                    fmt::format("accepted: batch, context, kv_heads, ragged, pattern, {}", LaunchNumbers::kNames));
    }
  }
  const double kv_rows = static_cast<double>(sizes.batch) * static_cast<double>(sizes.kv_heads);
  const double bytes = 2 * kv_rows * static_cast<double>(sizes.context) * descriptor.row_bytes() +
                       2 * kv_rows * descriptor.heads_per_kv * descriptor.head_dim;
  if (bytes > 64.0 * (1ULL << 30)) {
    throw Failure(Status::invalid_argument, fmt::format("a query and a cache of {:.0f} GiB", bytes / (1ULL << 30)),
                  "made-up data is limited to 64 GiB", "ask for a smaller batch, context or kv_heads");
  }
  return sizes;
}

Tensor dense(std::string name, std::string_view type, std::vector<std::int64_t> shape, void* data) {
  Tensor tensor{std::move(name), std::string(type), std::move(shape), {}, data};
  tensor.strides.assign(tensor.shape.size(), 1);
  for (std::size_t i = tensor.shape.size() - 1; i > 0; --i) tensor.strides[i - 1] = tensor.strides[i] * tensor.shape[i];
  return tensor;
}

}  // namespace

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const GqaDecode descriptor = parse(text);
  const Sizes sizes = read_sizes(descriptor, numbers);
  Random random(seed);
  const std::int64_t heads = sizes.kv_heads * descriptor.heads_per_kv;
  const std::int64_t rows = sizes.batch * sizes.context * sizes.kv_heads;
  const int row = descriptor.row_bytes() / kv_cache::format_of(descriptor).element_bytes();
  std::vector<std::unique_ptr<char[]>> storage;
  std::vector<Tensor> inputs;
  const auto add = [&](const char* name, std::string_view type, std::vector<std::int64_t> shape,
                       std::unique_ptr<char[]> data) {
    storage.push_back(std::move(data));
    inputs.push_back(dense(name, type, std::move(shape), storage.back().get()));
  };
  add("query", element_type(descriptor.query), {sizes.batch, heads, descriptor.head_dim},
      make_query(descriptor, sizes.batch * heads, sizes.pattern, random));
  for (const bool is_key : {true, false}) {
    add(is_key ? "key" : "value", kv_cache::format_of(descriptor).type(),
        {sizes.batch, sizes.context, sizes.kv_heads, row}, make_cache(descriptor, rows, sizes.pattern, is_key, random));
  }
  if (sizes.ragged) add("lengths", "I32", {sizes.batch}, make_ragged_lengths(sizes.batch, sizes.context, random));
  return std::make_unique<GqaProblem>(descriptor, std::move(inputs), sizes.launch, std::move(storage));
}

}  // namespace cubit::ops::gqa_decode
