// What the problems of kv_append and kv_gather share: tensors by name, addresses of a launch, comparison, sizes of
// made-up data.
#pragma once

#include <initializer_list>

#include "check/kv_cache/host_cache.hpp"

namespace cubit::check::kv_cache {

/// Rows into rows, bit for bit but for NaN among 16-bit values: each output has rows of `output_shape`, of as many
/// bytes as its last dimension.
class RowsProblem : public Problem {
 public:
  const std::vector<Tensor>& inputs() const override { return inputs_.list(); }
  const std::vector<Tensor>& outputs() const override { return outputs_.list(); }
  /// The error is how many rows differ, those that must not be touched among them.
  Comparison compare(std::span<const void* const> got) const override;

 protected:
  RowsProblem(KvAddressing addressing, const CacheFormats& formats, Tensors inputs, Tensors outputs)
      : addressing_(addressing), formats_(formats), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  /// What output number `which` must be.
  virtual std::vector<char> reference(std::size_t which) const = 0;
  virtual const CacheShape& output_shape() const = 0;

  /// Of an int32 tensor of this name, or `standard` where there is none.
  std::int64_t number(const char* name, std::int64_t index, std::int64_t standard) const;
  std::size_t bytes_of(std::initializer_list<const char*> names) const;
  /// Throw Failure(invalid_argument).
  void check_numbers(const char* name, const std::vector<std::int64_t>& shape, const char* dimensions) const;
  void check_caches(const Tensors& caches) const;
  void check_scales(const Tensors& scales);  ///< where the format has them
  /// The first of a row's scales, among those of keys (0) or of values (1).
  const char* scales_of(const Tensors& scales, std::size_t which, std::int64_t row) const;
  /// Of so many tokens' rows, those of keys and of values together.
  std::size_t row_bytes_of(std::size_t tokens) const {
    return tokens * shape_.kv_heads * (formats_.key.row_bytes() + formats_.value.row_bytes());
  }
  /// Of a tensor of scales, those of so many tokens; 0 where the format has none.
  std::size_t scale_bytes_of(std::size_t which, std::size_t tokens) const;
  static void check_kv_heads(std::int64_t kv_heads);

  /// The public struct, with the cache's members filled in: Arguments has a cubit_kv_cache `cache` and cubit_kv_scales
  /// `scales`.
  template <class Arguments>
  Arguments make_arguments(std::span<void* const> device_data) const {
    require_addresses(device_data);
    Arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.cache = shape_.arguments(formats_);
    arguments.cache.key = address<void>(device_data, kCacheNames[0]);
    arguments.cache.value = address<void>(device_data, kCacheNames[1]);
    arguments.cache.page_table = address<const std::int32_t>(device_data, "page_table");
    arguments.scales = shape_.scale_arguments(formats_);
    arguments.scales.key = address<void>(device_data, kScaleNames[0]);
    arguments.scales.value = address<void>(device_data, kScaleNames[1]);
    arguments.key = address<void>(device_data, "key");
    arguments.value = address<void>(device_data, "value");
    arguments.batch = static_cast<std::int32_t>(shape_.batch);
    return arguments;
  }
  template <class Element>
  Element* address(std::span<void* const> device_data, std::string_view name) const {
    auto* const found = inputs_.address<Element>(device_data, name);
    return found != nullptr ? found : outputs_.address<Element>(device_data.subspan(inputs_.list().size()), name);
  }

  KvAddressing addressing_;
  CacheFormats formats_;
  Tensors inputs_;
  Tensors outputs_;
  CacheShape shape_;

 private:
  void require_addresses(std::span<void* const> device_data) const;
};

/// What made-up data of both operators has.
struct RowSizes {
  std::int64_t batch = 1;
  std::int64_t tokens = -1;  ///< negative: not given
  std::int64_t kv_heads = 1;
  std::int64_t context = 0;  ///< 0: not given
  bool ragged = false;
  int pattern = 0;
  CacheNumbers cache;

  /// False if there is no size of this name.
  bool set(KvAddressing addressing, std::string_view name, double value);
  /// The cache's numbers, once context is known; throws Failure(invalid_argument) where the data would be too large.
  void settle(KvAddressing addressing, const CacheFormats& formats);
};

}  // namespace cubit::check::kv_cache
