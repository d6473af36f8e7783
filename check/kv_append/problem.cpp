// Implements the problem of kv_append. The reference is exact: it says which rows a launch writes, bit for bit.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "check/kv_append/problem.hpp"

namespace cubit::check::kv_append {
namespace {

using kv_cache::CacheNumbers;
using kv_cache::CacheShape;
using kv_cache::kCacheNames;
using kv_cache::kRowNames;
using kv_cache::kScaleNames;

/// The names of a tensor's dimensions, from the argument table.
std::string dimensions_of(const KvAppend& descriptor, std::string_view name) {
  return check::dimensions_of(ops::kv_append::arguments(), help_of(fields()), descriptor.text(), name);
}

class KvAppendProblem final : public kv_cache::RowsProblem {
 public:
  /// Checks all tensors and numbers. `caches` holds every tensor that a launch writes, as it is before the launch, or
  /// no tensor. Throws Failure(invalid_argument).
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

  /// The position that a new token is stored at. A token that is left out gets a position outside the cache.
  std::int64_t position(std::int64_t sequence, std::int64_t token) const {
    if (token >= number("counts", sequence, tokens())) return -1;
    if (inputs_.find("positions") != nullptr) return number("positions", sequence * tokens() + token, 0);
    const std::int64_t length = number("lengths", sequence, 0);
    return length < 0 ? -1 : length + token;
  }
  /// Bytes of the scales that a launch writes (`made`), or of the scales that it reads.
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

  /// Tokens of a cache that is just long enough for the last new token. Tokens that end beyond `room` do not count.
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
      const std::string dimensions = dimensions_of(descriptor_, kRowNames[which]);
      const int channels = formats_[which].head_dim;
      require_element(tensor, descriptor_.input, "input");
      if (tensor.shape.size() != 4) require_shape(tensor, {1, 1, 1, channels}, dimensions);
      require_shape(tensor, {batch(), tokens(), key().shape[2], channels}, dimensions);
    }
    check_kv_heads(key().shape[2]);
    kv_cache::require_most("sequences", batch());
    kv_cache::require_most("new tokens", tokens());
    check_numbers("lengths", {batch()}, dimensions_of(descriptor_, "lengths"));
    check_numbers("counts", {batch()}, dimensions_of(descriptor_, "counts"));
    check_numbers("positions", {batch(), tokens()}, dimensions_of(descriptor_, "positions"));
  }

  void check_positions() const {
    if (inputs_.find("lengths") == nullptr || inputs_.find("positions") == nullptr) return;
    reject("tensors lengths and positions", "positions alone say where tokens go", "leave lengths or positions out");
  }

  /// Checks that the length of a cache, if only the new tokens decide it, fits the 32 bits of a launch.
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

  /// Checks that no two tokens go to the same place, because the result would depend on the order of the writes.
  void check_places() const {
    if (inputs_.find("positions") == nullptr && !shape_.is_paged()) return;  // consecutive positions differ
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

  /// Refuses the tokens `first` and `second`, which go to the same place. Tokens are counted over all sequences.
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
    // A model's tables cover its longest sequence, which may be shorter than the cache.
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
    // The outputs are keys, values, and then the scales of each if a launch writes scales.
    const Tensor& found = outputs_.list()[which];
    const bool is_value = found.name == kCacheNames[1] || found.name == kScaleNames[1];
    const bool is_scales = which >= 2;
    const kv_cache::RowFormat& format = formats_[is_value ? 1 : 0];
    const int channels = format.head_dim;
    std::vector<char> expected(found.bytes());
    if (!expected.empty()) std::memcpy(expected.data(), found.data, expected.size());
    const auto* rows = static_cast<const char*>(inputs_.find(kRowNames[is_value ? 1 : 0])->data);
    const int scale_bytes = format.groups * format.scale_bytes();
    const auto append = [&](std::int64_t item) {
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
    };
    parallel_for(batch() * tokens(), append, kv_cache::kRowsOfThread / shape_.kv_heads + 1);
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

}  // namespace

void rotate_row(Rotary rotary, int rotary_dim, const float* cosines, const float* sines, float* row) {
  for (int pair = 0; pair < rotary_dim / 2; ++pair) {
    const bool interleaved = rotary == Rotary::interleaved;
    float& first = row[interleaved ? 2 * pair : pair];
    float& second = row[interleaved ? 2 * pair + 1 : pair + rotary_dim / 2];
    // Volatile products keep the compiler from contracting a product and a sum, which would round once instead of
    // twice.
    const volatile float kept_first = first * cosines[pair];
    const volatile float kept_second = second * cosines[pair];
    const volatile float turned_first = first * sines[pair];
    const volatile float turned_second = second * sines[pair];
    first = kept_first - turned_second;
    second = kept_second + turned_first;
  }
}

std::unique_ptr<Problem> make_problem_of(const KvAppend& descriptor, Tensors inputs, Tensors caches,
                                         const CacheNumbers& numbers) {
  return std::make_unique<KvAppendProblem>(descriptor, std::move(inputs), std::move(caches), numbers);
}

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const KvAppend descriptor = parse(text);
  require_names(inputs, ops::kv_append::arguments().input_names(), "kv_append");
  CacheNumbers launch;
  for (const auto& [name, value] : numbers) {
    if (launch.set(descriptor.cache, name, value)) continue;
    reject(fmt::format("number {}", name), "kv_append has no such launch argument",
           fmt::format("accepted: {}", CacheNumbers::names(descriptor.cache)));
  }
  Tensors taken;
  for (const Argument& argument : ops::kv_append::arguments().arguments) {
    if (argument.kind == ArgumentKind::input) taken.take(inputs, argument.name);
  }
  for (const std::size_t which : {0, 1}) {
    if (taken.find(kRowNames[which]) != nullptr) continue;
    reject(fmt::format("tensors without {}", kRowNames[which]), "kv_append needs key and value",
           fmt::format("give both, {}", dimensions_of(descriptor, kRowNames[which])));
  }
  // Scales that a launch computes are outputs; other scales are inputs.
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
  return make_problem_of(descriptor, std::move(taken), std::move(caches), launch);
}

}  // namespace cubit::check::kv_append
