// What the problems of kv_append and kv_gather share: tensors by name, addresses of a launch, the comparison, and the
// sizes of made-up data.
#pragma once

#include <initializer_list>

#include "check/kv_cache/host_cache.hpp"

namespace cubit::check::kv_cache {

/// A problem whose outputs are rows. The comparison is bitwise, except that any NaN of 16-bit values equals any other.
/// Every output has the rows of output_shape(); its last dimension is the row's length.
class RowsProblem : public Problem {
 public:
  const std::vector<Tensor>& inputs() const override { return inputs_.list(); }
  const std::vector<Tensor>& outputs() const override { return outputs_.list(); }
  /// The error is the number of rows that differ. Rows that a launch must leave alone count too.
  Comparison compare(std::span<const void* const> got) const override;

 protected:
  RowsProblem(KvAddressing addressing, const CacheFormats& formats, Tensors inputs, Tensors outputs)
      : addressing_(addressing), formats_(formats), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  /// The expected content of output `which`.
  virtual std::vector<char> reference(std::size_t which) const = 0;
  virtual const CacheShape& output_shape() const = 0;

  /// The element `index` of the int32 tensor `name`, or `standard` if there is no such tensor.
  std::int64_t number(const char* name, std::int64_t index, std::int64_t standard) const;
  std::size_t bytes_of(std::initializer_list<const char*> names) const;
  /// These checks throw Failure(invalid_argument).
  void check_numbers(const char* name, const std::vector<std::int64_t>& shape, std::string_view dimensions) const;
  void check_caches(const Tensors& caches) const;
  void check_scales(
      const Tensors& scales);  ///< checks that scales are given exactly if the format has a tensor of scales
  /// The address of a row's first scale in the tensor of scales of keys (0) or values (1).
  const char* scales_of(const Tensors& scales, std::size_t which, std::int64_t row) const;
  /// Bytes of the rows of so many tokens, keys and values together.
  std::size_t row_bytes_of(std::size_t tokens) const {
    return tokens * shape_.kv_heads * (formats_.key.row_bytes() + formats_.value.row_bytes());
  }
  /// Bytes of the scales of so many tokens; 0 if the format has no tensor of scales.
  std::size_t scale_bytes_of(std::size_t which, std::size_t tokens) const;
  static void check_kv_heads(std::int64_t kv_heads);

  /// The public argument struct with the cache's members filled in. `Arguments` has members `cache` of type
  /// cubit_kv_cache and `scales` of type cubit_kv_scales.
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

/// Sizes of made-up data that both operators take.
struct RowSizes {
  std::int64_t batch = 1;
  std::int64_t tokens = -1;  ///< negative if it is not given
  std::int64_t kv_heads = 1;
  std::int64_t context = 0;  ///< 0 if it is not given
  bool ragged = false;
  int pattern = 0;
  CacheNumbers cache;

  /// Sets the size `name`. Returns false if there is no size of this name.
  bool set(KvAddressing addressing, std::string_view name, double value);
  /// Sets the cache's numbers once `context` is known. Throws Failure(invalid_argument) if the data would be too large.
  void settle(KvAddressing addressing, const CacheFormats& formats);
};

}  // namespace cubit::check::kv_cache
