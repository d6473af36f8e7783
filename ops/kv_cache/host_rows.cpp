// Rows and caches in host memory: tensors by name, made-up data, and comparison bit by bit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "ops/kv_cache/host_cache.hpp"
#include "ops/random.hpp"

namespace cubit::ops::kv_cache {
namespace {

void fill_row(int pattern, Random& random, std::int64_t index, std::vector<float>& row) {
  for (float& x : row) x = static_cast<float>(random.normal());
  switch (pattern) {
    case 1:
      for (std::size_t channel = 3; channel < row.size(); channel += 29) row[channel] = row[channel] * 4 - 60;
      break;
    case 2:
      if (index % 3 != 0) row.assign(row.size(), row[0]);
      break;
    case 3:  // steps of a group from 0 to 15 are its values: halves are ties; zeros of both signs
      for (float& x : row) x = 0.5f * static_cast<float>(random.bits() % 31);
      for (std::size_t channel = 0; channel < row.size(); channel += 16) row[channel + 7] = 15;
      for (float& x : row) x = x == 0 && random.bits() % 2 == 0 ? -0.f : x;
      break;
    case 4:
      for (float& x : row) x *= 1e-7f;
      break;
    case 5:
      for (float& x : row) x *= index % 4 == 3 ? 1e25f : 20000.f;
      break;
    default:
      break;
  }
}

}  // namespace

void reject(std::string given, std::string rule, std::string remedy) {
  throw Failure(Status::invalid_argument, std::move(given), std::move(rule), std::move(remedy));
}

Tensor dense(std::string name, std::string_view type, std::vector<std::int64_t> shape, void* data) {
  Tensor tensor{std::move(name), std::string(type), std::move(shape), {}, data};
  tensor.strides.assign(tensor.shape.size(), 1);
  for (std::size_t i = tensor.shape.size(); i-- > 1;) tensor.strides[i - 1] = tensor.strides[i] * tensor.shape[i];
  return tensor;
}

void require_type(const Tensor& tensor, std::string_view type) {
  if (tensor.type == type) return;
  reject(fmt::format("tensor {} of type {}", tensor.name, tensor.type), fmt::format("it must be {}", type));
}

void require_shape(const Tensor& tensor, const std::vector<std::int64_t>& shape, const char* dimensions) {
  if (tensor.shape == shape) return;
  reject(fmt::format("tensor {} [{}]", tensor.name, fmt::join(tensor.shape, ", ")),
         fmt::format("it must have the dimensions {}", dimensions),
         fmt::format("accepted beside the other tensors: [{}]", fmt::join(shape, ", ")));
}

std::int64_t whole_number(std::string_view name, double value, double least, double most) {
  if (value >= least && value <= most && value == std::floor(value)) return static_cast<std::int64_t>(value);
  reject(fmt::format("{} = {}", name, value), "it is not a number that is accepted",
         fmt::format("accepted: whole numbers from {:.0f} to {:.0f}", least, most));
}

void Tensors::add(Tensor tensor, std::unique_ptr<char[]> storage) {
  tensor.data = storage.get();
  list_.push_back(std::move(tensor));
  storage_.push_back(std::move(storage));
}

void Tensors::add_zeros(Tensor tensor) {
  auto zeros = std::make_unique<char[]>(tensor.bytes());
  add(std::move(tensor), std::move(zeros));
}

bool Tensors::take(std::span<const Tensor> inputs, std::string_view name) {
  for (const Tensor& input : inputs) {
    if (input.name != name) continue;
    auto storage = std::make_unique<char[]>(input.bytes());
    if (input.bytes() > 0) std::memcpy(storage.get(), input.data, input.bytes());
    add(dense(input.name, input.type, input.shape, nullptr), std::move(storage));
    return true;
  }
  return false;
}

const Tensor* Tensors::find(std::string_view name) const {
  const auto found =
      std::find_if(list_.begin(), list_.end(), [&](const Tensor& tensor) { return tensor.name == name; });
  return found == list_.end() ? nullptr : &*found;
}

std::unique_ptr<char[]> random_rows(Element element, std::int64_t rows, int channels, int pattern, std::uint64_t seed) {
  // Distinct rows are made for at most this many. A prime, so that sequences differ.
  constexpr std::int64_t kDistinctRows = 65521;
  Random random(seed);
  const std::int64_t row_bytes = 2 * channels;
  auto data = std::make_unique<char[]>(rows * row_bytes);
  std::vector<float> row(channels);
  for (std::int64_t i = 0; i < rows; ++i) {
    char* dst = data.get() + i * row_bytes;
    if (i >= kDistinctRows) {
      std::memcpy(dst, dst - kDistinctRows * row_bytes, row_bytes);
      continue;
    }
    fill_row(pattern, random, i, row);
    if (element == Element::fp16)
      std::for_each(row.begin(), row.end(), [](float& x) { x = std::clamp(x, -65504.f, 65504.f); });
    store_row(element, row.data(), channels, dst);
  }
  return data;
}

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
  RandomCache cache{std::make_unique<char[]>(count * format.row_bytes()), nullptr};
  if (format.has_scales())
    cache.scales = random_scales(format, shape, peak_of(element, values.get(), count, format.head_dim), seed);
  std::vector<float> row(format.head_dim);
  for (std::int64_t i = 0; i < count; ++i) {
    load_row(element, values.get() + i * 2 * format.head_dim, format.head_dim, row.data());
    char* const scales =
        format.has_scales() ? cache.scales.get() + shape.scale_index(format, i) * format.scale_bytes() : nullptr;
    quantise_row(format, row.data(), cache.rows.get() + i * format.row_bytes(), scales);
  }
  return cache;
}

void compare_rows(const char* name, const CacheShape& shape, std::span<const char> expected, const void* got,
                  Problem::Comparison& comparison) {
  const std::int64_t rows = shape.rows();
  if (rows == 0) return;
  const std::int64_t row_bytes = static_cast<std::int64_t>(expected.size()) / rows;
  const char* found = static_cast<const char*>(got);
  for (std::int64_t row = 0; row < rows; ++row) {
    const char* wanted = expected.data() + row * row_bytes;
    const char* given = found + row * row_bytes;
    if (std::memcmp(wanted, given, row_bytes) == 0) continue;
    if (comparison.error++ > 0) continue;
    const auto byte = std::mismatch(wanted, wanted + row_bytes, given).first - wanted;
    comparison.worst = fmt::format("{}, {}: byte {} is {:#04x}, not {:#04x}", name, shape.describe(row), byte,
                                   static_cast<unsigned char>(given[byte]), static_cast<unsigned char>(wanted[byte]));
  }
}

}  // namespace cubit::ops::kv_cache
