// Implements what the problems of kv_append and kv_gather share: checks of tensors, and the comparison.
#include "check/kv_cache/rows_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "check/made_up_data.hpp"

namespace cubit::check::kv_cache {
namespace {

/// The element of a tensor whose rows are 16-bit values; nothing for packed rows and for scales.
std::optional<Element> value_element(const Tensor& tensor) {
  if (std::find(std::begin(kScaleNames), std::end(kScaleNames), tensor.name) != std::end(kScaleNames)) return {};
  for (const Element element : {Element::bf16, Element::fp16})
    if (tensor.type == element_type(element)) return element;
  return {};
}

}  // namespace

Problem::Comparison RowsProblem::compare(std::span<const void* const> got) const {
  const auto& tensors = outputs_.list();
  if (got.size() != tensors.size()) {
    reject(fmt::format("{} outputs", got.size()), "every output of the problem is compared",
           fmt::format("accepted: {}", tensors.size()));
  }
  Comparison comparison{0, 0, "none"};
  for (std::size_t which = 0; which < tensors.size(); ++which) {
    const std::vector<char> expected = reference(which);
    compare_rows(tensors[which].name.c_str(), output_shape(), expected, got[which], value_element(tensors[which]),
                 comparison);
  }
  return comparison;
}

std::int64_t RowsProblem::number(const char* name, std::int64_t index, std::int64_t standard) const {
  const Tensor* tensor = inputs_.find(name);
  return tensor == nullptr ? standard : static_cast<const std::int32_t*>(tensor->data)[index];
}

std::size_t RowsProblem::bytes_of(std::initializer_list<const char*> names) const {
  std::size_t bytes = 0;
  for (const char* name : names) {
    if (const Tensor* tensor = inputs_.find(name)) bytes += tensor->bytes();
  }
  return bytes;
}

void RowsProblem::check_numbers(const char* name, const std::vector<std::int64_t>& shape,
                                std::string_view dimensions) const {
  const Tensor* tensor = inputs_.find(name);
  if (tensor == nullptr) return;
  require_type(*tensor, "I32");
  require_shape(*tensor, shape, dimensions);
}

void RowsProblem::check_caches(const Tensors& caches) const {
  for (const std::size_t which : {0, 1}) {
    const Tensor& cache = *caches.find(kCacheNames[which]);
    require_type(cache, formats_[which].type());
    require_shape(cache, shape_.shape(formats_[which]), shape_.dimensions());
  }
}

void RowsProblem::check_scales(const Tensors& scales) {
  for (const std::size_t which : {0, 1}) {
    const Tensor* tensor = inputs_.find(kScaleNames[which]);
    const bool is_read = tensor != nullptr;
    check_scale_tensor(formats_, which, shape_, is_read ? tensor : scales.find(kScaleNames[which]), is_read);
  }
}

const char* RowsProblem::scales_of(const Tensors& scales, std::size_t which, std::int64_t row) const {
  const RowFormat& format = formats_[which];
  if (!format.has_scales()) return nullptr;
  return static_cast<const char*>(scales.find(kScaleNames[which])->data) +
         shape_.scale_index(formats_, which, row) * format.scale_bytes();
}

std::size_t RowsProblem::scale_bytes_of(std::size_t which, std::size_t tokens) const {
  const RowFormat& format = formats_[which];
  if (!format.has_scales()) return 0;
  if (format.scales == KvScales::tensor) return format.scale_bytes();
  if (shape_.has_scales_of_heads[which]) return shape_.kv_heads * format.groups * format.scale_bytes();
  const std::size_t heads = format.scales == KvScales::token ? 1 : shape_.kv_heads;
  return tokens * heads * format.groups * format.scale_bytes();
}

void RowsProblem::check_kv_heads(std::int64_t kv_heads) {
  if (kv_heads >= 1) return;
  reject(fmt::format("rows of {} KV heads", kv_heads), "there must be at least one", "accepted: 1 and more");
}

void RowsProblem::require_addresses(std::span<void* const> device_data) const {
  const std::size_t inputs = inputs_.list().size();
  const std::size_t outputs = outputs_.list().size();
  if (device_data.size() == inputs + outputs) return;
  reject(fmt::format("{} device addresses", device_data.size()),
         fmt::format("this problem has {} inputs and {} outputs", inputs, outputs),
         fmt::format("accepted: {}", inputs + outputs));
}

bool RowSizes::set(KvAddressing addressing, std::string_view name, double value) {
  if (name == "batch") {
    batch = whole_number(name, value, 0, 1 << 20);
  } else if (name == "tokens") {
    tokens = whole_number(name, value, 1, 1 << 24);
  } else if (name == "kv_heads") {
    kv_heads = whole_number(name, value, 1, 4096);
  } else if (name == "context") {
    context = whole_number(name, value, 1, 1 << 27);
  } else if (name == "ragged") {
    ragged = whole_number(name, value, 0, 1) != 0;
  } else if (name == "pattern") {
    pattern = static_cast<int>(whole_number(name, value, 0, kRowPatterns - 1));
  } else {
    return name != "max_length" && cache.set(addressing, name, value);
  }
  return true;
}

void RowSizes::settle(KvAddressing addressing, const CacheFormats& formats) {
  cache.max_length = context;
  if (addressing == KvAddressing::paged && cache.page_size < 0) cache.page_size = 16;
  const double rows = static_cast<double>(batch) * static_cast<double>(kv_heads);
  const auto rows_tokens = static_cast<double>(std::max<std::int64_t>(tokens, 0) + context);
  const double bytes = 2.0 * (formats.key.head_dim + formats.value.head_dim) * rows * rows_tokens;
  require_made_up(fmt::format("tensors of {:.0f} GiB", bytes / (1ULL << 30)), bytes,
                  "ask for a smaller batch, tokens, context or kv_heads");
}

}  // namespace cubit::check::kv_cache
