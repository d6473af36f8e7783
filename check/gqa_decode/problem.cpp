// Implements the problem of gqa_decode: checks of tensors against the descriptor, and the launch arguments.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "check/gqa_decode/problem.hpp"
#include "ops/argument_checks.hpp"

namespace cubit::check::gqa_decode {
namespace {

void require_type(const Tensor& tensor, std::string_view type, const GqaDecode& descriptor) {
  if (tensor.type == type) return;
  reject(fmt::format("tensor {} of type {}", tensor.name, tensor.type),
         fmt::format("the descriptor {} wants {}", descriptor.text(), type));
}

void check_lengths(const Tensor& lengths, std::int64_t batch, std::int64_t tokens) {
  if (lengths.type != "I32") reject(fmt::format("tensor lengths of type {}", lengths.type), "it must be I32");
  require_rank(lengths, 1, "[batch]");
  if (lengths.shape[0] != batch) {
    reject(shape_text(lengths), fmt::format("query has a batch of {}", batch));
  }
  const auto* values = static_cast<const std::int32_t*>(lengths.data);
  for (std::int64_t i = 0; i < batch; ++i) {
    if (values[i] >= 0 && values[i] <= tokens) continue;
    reject(fmt::format("lengths[{}] = {}", i, values[i]), fmt::format("the cache holds {} tokens", tokens),
           fmt::format("accepted: 0 to {}", tokens));
  }
}

}  // namespace

GqaProblem::GqaProblem(GqaDecode descriptor, Tensors inputs, const LaunchNumbers& numbers)
    : descriptor_(std::move(descriptor)), inputs_(std::move(inputs)), numbers_(numbers) {
  check();
  std::vector<std::int64_t> shape = query().shape;
  shape.back() = value_channels();
  outputs_.push_back(dense("output", element_type(descriptor_.output), shape, nullptr));
  if (!numbers_.with_lse) return;
  shape.pop_back();
  outputs_.push_back(dense("lse", "F32", shape, nullptr));
}

void GqaProblem::check_per_head(bool wanted, const char* name, const char* field) const {
  const Tensor* tensor = find(name);
  if (!wanted) {
    if (tensor == nullptr) return;
    reject(fmt::format("tensor {}", name), fmt::format("{} does not have {}", descriptor_.text(), field),
           fmt::format("leave it out, or ask for {}", field));
  }
  if (tensor == nullptr) {
    reject(fmt::format("tensors without {}", name), fmt::format("the descriptor has {}", field),
           fmt::format("give {} [query heads] F32", name));
  }
  require_type(*tensor, "F32", descriptor_);
  require_rank(*tensor, 1, "[query heads]");
  if (tensor->shape[0] != query_heads())
    reject(shape_text(*tensor), fmt::format("there are {} query heads", query_heads()),
           fmt::format("accepted: [{}]", query_heads()));
  // The kernel multiplies these numbers by log2(e), and slopes by a distance too: the products must fit a float.
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const auto* values = static_cast<const float*>(tensor->data);
  const bool may_be_none = name == std::string_view(kSinks);
  const float most = may_be_none ? 1e38f : 1e28f;
  for (std::int64_t head = 0; head < query_heads(); ++head) {
    if (std::fabs(values[head]) <= most || (may_be_none && values[head] == kNone))
      continue;  // NaN fails the comparison
    reject(fmt::format("{}[{}] = {}", name, head, values[head]),
           std::isfinite(values[head]) ? fmt::format("its magnitude is beyond {}", most) : "it is not a finite number",
           fmt::format("accepted: -{0} to {0}{1}", most, may_be_none ? ", and -inf for no sink" : ""));
  }
}

void GqaProblem::check_roles() const {
  if (descriptor_.soft_cap) check_soft_cap(numbers_.soft_cap);
  check_per_head(descriptor_.alibi, kSlopes, "alibi=true");
  check_per_head(descriptor_.sinks, kSinks, "sinks=true");
  if (descriptor_.score.empty() && find(kParameters) != nullptr)
    reject(fmt::format("tensor {}", kParameters), fmt::format("{} does not have score=name@hash", descriptor_.text()),
           "leave it out, or ask for score=name@hash");
  if (descriptor_.window) require_window(numbers_.window);
}

ScoreRules GqaProblem::score_rules(std::int64_t head) const {
  ScoreRules rules{.soft_cap = numbers_.soft_cap, .window = numbers_.window, .kept_tokens = numbers_.kept_tokens};
  if (descriptor_.alibi) rules.alibi_slope = static_cast<const float*>(find(kSlopes)->data)[head];
  if (descriptor_.sinks) rules.sink = static_cast<const float*>(find(kSinks)->data)[head];
  return rules;
}

void GqaProblem::check_cache(std::size_t which) {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor_);
  const kv_cache::RowFormat& format = formats[which];
  const Tensor& cache = this->cache(which);
  require_type(cache, format.type(), descriptor_);
  require_rank(cache, 4, shape_.dimensions());
  const bool is_longer = cache.shape[3] > format.row_elements();
  if (is_longer && numbers_.padded_rows) shape_.padded_row[which] = cache.shape[3];
  if (cache.shape[3] != shape_.row_pitch(formats, which)) {
    reject(shape_text(cache), fmt::format("its rows have {} elements", cache.shape[3]),
           fmt::format("{} wants rows of {}{}", descriptor_.text(), format.row_elements(),
                       is_longer ? "; give padded_rows=1 if the rest of a row is padding" : ""));
  }
  if (!shape_.is_paged() && cache.shape[0] != batch())
    reject(shape_text(cache), fmt::format("query has a batch of {}", batch()));
  if (shape_.kv_heads < 1) reject(shape_text(cache), "there must be at least one KV head");
  std::vector<std::int64_t> wanted = shape_.shape(format);
  wanted.back() = cache.shape[3];
  require_shape(cache, wanted, shape_.dimensions());
  const std::int64_t pitch = cache.shape[3] * format.element_bytes();
  const int alignment = descriptor_.alignment_bytes();
  if (pitch % alignment == 0) return;
  const std::int64_t most = std::gcd(pitch, 16);
  reject(shape_text(cache),
         fmt::format("its rows are {} bytes apart, not a multiple of alignment={}", pitch, alignment),
         most >= 4 ? fmt::format("ask for alignment={} in the descriptor", most) : "pad rows to a multiple of 4 bytes");
}

/// The window of all query tokens together; 0 if the descriptor has no window.
std::int64_t GqaProblem::read_window() const {
  return descriptor_.window ? std::int64_t{numbers_.window} + descriptor_.query_tokens - 1 : 0;
}

/// Whether a query token attends to any token of the page that begins with token `first`.
bool GqaProblem::needs_page(std::int64_t sequence, std::int64_t first) const {
  if (!descriptor_.window) return true;
  // The sum needs 64 bits, because a window may be as large as the largest int.
  const std::int64_t first_attended = std::int64_t{length(sequence)} - numbers_.window - descriptor_.query_tokens + 1;
  return first < numbers_.kept_tokens || first + shape_.page_size > first_attended;
}

/// Checks that every page that a sequence needs exists. A launch does not check the page table.
void GqaProblem::check_pages() const {
  if (!shape_.is_paged()) return;
  for (std::int64_t sequence = 0; sequence < batch(); ++sequence) {
    for (std::int64_t token = 0; token < length(sequence); token += shape_.page_size) {
      if (shape_.row(sequence, token, 0) >= 0 || !needs_page(sequence, token)) continue;
      const std::int64_t column = token / shape_.page_size;
      reject(fmt::format("page_table[{}, {}] = {}", sequence, column, shape_.table[sequence * shape_.columns + column]),
             fmt::format("the sequence has {} tokens, and the cache {} pages", length(sequence), shape_.pages),
             shape_.pages > 0 ? fmt::format("accepted there: 0 to {}", shape_.pages - 1)
                              : "accepted of such a cache: sequences of 0 tokens");
    }
  }
}

void GqaProblem::check_query() const {
  require_type(query(), element_type(descriptor_.query), descriptor_);
  const bool has_tokens =
      descriptor_.query_tokens > 1 || query().shape.size() == 4;  // the dimension may be left out for one query token
  require_rank(query(), has_tokens ? 4 : 3, query_dimensions(descriptor_));
  if (query().shape.back() != descriptor_.head_dim) {
    reject(shape_text(query()), fmt::format("head_dim is {}", descriptor_.head_dim));
  }
  if (!has_tokens || query().shape[1] == descriptor_.query_tokens) return;
  const bool can_be = query().shape[1] >= 1 && query().shape[1] <= kMostQueryTokens;
  reject(shape_text(query()), fmt::format("the descriptor has query_tokens={}", descriptor_.query_tokens),
         can_be
             ? fmt::format("ask for query_tokens={}", query().shape[1])
             : fmt::format("accepted: [batch, {}, query heads, {}]", descriptor_.query_tokens, descriptor_.head_dim));
}

void GqaProblem::check() {
  check_query();
  const bool heads_outside = numbers_.cache.heads_outside;
  require_type(key(), kv_cache::formats_of(descriptor_).key.type(), descriptor_);
  require_rank(key(), 4, "[batch, tokens, kv_heads, row], or pages where cache=paged");
  shape_ = kv_cache::cache_shape(descriptor_.cache, numbers_.cache, batch(), key().shape[heads_outside ? 1 : 2], &key(),
                                 find("page_table"), 0);
  check_cache(0);
  check_cache(1);
  if (query_heads() != kv_heads() * descriptor_.heads_per_kv) {
    const bool multiple = query_heads() % kv_heads() == 0;
    reject(fmt::format("{} query heads and {} KV heads", query_heads(), kv_heads()),
           multiple ? fmt::format("the descriptor has heads_per_kv={}", descriptor_.heads_per_kv)
                    : "query heads are not a multiple of KV heads",
           fmt::format("accepted: {} query heads", kv_heads() * descriptor_.heads_per_kv));
  }
  if (tokens() > std::numeric_limits<std::int32_t>::max() - 4096) reject(shape_text(key()), "too many tokens");
  if (lengths() != nullptr) check_lengths(*lengths(), batch(), tokens());
  check_roles();
  check_pages();
  for (const std::size_t which : {0, 1}) {
    kv_cache::check_scale_tensor(kv_cache::formats_of(descriptor_), which, shape_, find(kv_cache::kScaleNames[which]),
                                 true);
  }
  check_mask(descriptor_, find("mask"), batch());
  check_softmax_scale(numbers_.softmax_scale);
}

int GqaProblem::length(std::int64_t sequence) const {
  if (lengths() == nullptr) return static_cast<int>(tokens());
  return static_cast<const std::int32_t*>(lengths()->data)[sequence];
}

std::size_t GqaProblem::cached_rows() const {
  std::size_t rows = 0;
  for (std::int64_t sequence = 0; sequence < batch(); ++sequence)
    rows += attended_tokens(length(sequence), read_window(), numbers_.kept_tokens);
  return rows * kv_heads();
}

std::size_t GqaProblem::scale_bytes_read(const kv_cache::CacheFormats& formats, std::size_t which) const {
  const kv_cache::RowFormat& format = formats[which];
  if (!format.has_scales()) return 0;
  if (shape_.has_scales_of_heads[which]) return kv_heads() * format.groups * format.scale_bytes();
  const std::size_t rows = cached_rows();
  const std::size_t scales = format.scales == KvScales::tensor  ? 1
                             : format.scales == KvScales::token ? rows / kv_heads()
                                                                : rows * format.groups;
  return scales * format.scale_bytes();
}

std::size_t GqaProblem::bytes_read() const {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor_);
  std::size_t bytes = cached_rows() * (formats.key.row_bytes() + formats.value.row_bytes()) + query().bytes() +
                      scale_bytes_read(formats, 0) + scale_bytes_read(formats, 1);
  for (const char* name : {"lengths", "mask", kSlopes, kSinks}) {
    if (const Tensor* tensor = find(name)) bytes += tensor->bytes();
  }
  return bytes;
}

std::size_t GqaProblem::bytes_written() const {
  std::size_t bytes = 0;
  for (const Tensor& output : outputs_) bytes += output.bytes();
  return bytes;
}

/// Counts two matrix products, query with keys and weights with values: one multiplication and one addition per
/// channel, row and head. Every query token counts, as if it attended to all rows.
double GqaProblem::operations() const {
  const int heads = descriptor_.heads_per_kv * descriptor_.query_tokens;
  return 2.0 * static_cast<double>(cached_rows()) * heads * (descriptor_.head_dim + value_channels());
}

std::vector<std::byte> GqaProblem::arguments(std::span<void* const> device_data) const {
  const std::size_t inputs = inputs_.list().size();
  if (device_data.size() != inputs + outputs_.size()) {
    reject(fmt::format("{} device addresses", device_data.size()),
           fmt::format("this problem has {} inputs and {} outputs", inputs, outputs_.size()));
  }
  cubit_gqa_decode_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.query = device_data[0];
  arguments.key = device_data[1];
  arguments.value = device_data[2];
  const auto numbers = [&](const char* name) { return inputs_.address<const std::int32_t>(device_data, name); };
  const auto floats = [&](const char* name) { return inputs_.address<const float>(device_data, name); };
  arguments.lengths = numbers("lengths");
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor_);
  arguments.scales = shape_.scale_arguments(formats);
  arguments.scales.key = inputs_.address<void>(device_data, kv_cache::kScaleNames[0]);
  arguments.scales.value = inputs_.address<void>(device_data, kv_cache::kScaleNames[1]);
  arguments.alibi_slopes = floats(kSlopes);
  arguments.sinks = floats(kSinks);
  arguments.score_parameters = inputs_.address<void>(device_data, kParameters);
  arguments.soft_cap = static_cast<float>(numbers_.soft_cap);
  arguments.window = numbers_.window;
  arguments.kept_tokens = numbers_.kept_tokens;
  arguments.output = device_data[inputs];
  arguments.lse = outputs_.size() > 1 ? static_cast<float*>(device_data[inputs + 1]) : nullptr;
  arguments.query_strides[1] = descriptor_.head_dim;
  arguments.query_token_stride = query_heads() * descriptor_.head_dim;
  arguments.query_strides[0] = descriptor_.query_tokens * arguments.query_token_stride;
  arguments.output_strides[1] = value_channels();
  arguments.output_token_stride = query_heads() * value_channels();
  arguments.output_strides[0] = descriptor_.query_tokens * arguments.output_token_stride;
  arguments.mask = numbers("mask");
  arguments.mask_stride = descriptor_.query_tokens;
  const cubit_kv_cache cache = shape_.arguments(formats);
  std::copy_n(cache.key_strides, 3, arguments.key_strides);
  std::copy_n(cache.value_strides, 3, arguments.value_strides);
  arguments.page_table = numbers("page_table");
  arguments.page_table_stride = cache.page_table_stride;
  arguments.page_size = cache.page_size;
  arguments.batch = static_cast<std::int32_t>(batch());
  arguments.kv_heads = static_cast<std::int32_t>(kv_heads());
  arguments.max_length = static_cast<std::int32_t>(tokens());
  arguments.softmax_scale = static_cast<float>(numbers_.softmax_scale);
  arguments.splits = numbers_.splits;
  return bytes_of_struct(arguments);
}

}  // namespace cubit::check::gqa_decode
