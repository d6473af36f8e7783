#include "check/host_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/parallel.hpp"

namespace cubit::check {
namespace {

/// Copies on several threads, because most of the time of a large copy goes into the first touch of its pages.
void copy_bytes(char* dst, const char* src, std::int64_t bytes) {
  constexpr std::int64_t kBytesOfThread = 1 << 20;
  parallel_for((bytes + kBytesOfThread - 1) / kBytesOfThread, [&](std::int64_t block) {
    const std::int64_t first = block * kBytesOfThread;
    std::memcpy(dst + first, src + first, std::min(kBytesOfThread, bytes - first));
  });
}

}  // namespace

void reject(std::string given, std::string rule, std::string remedy) {
  throw Failure(Status::invalid_argument, std::move(given), std::move(rule), std::move(remedy));
}

std::string shape_text(const Tensor& tensor) {
  return fmt::format("tensor {} [{}]", tensor.name, fmt::join(tensor.shape, ", "));
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

void require_shape(const Tensor& tensor, const std::vector<std::int64_t>& shape, std::string_view dimensions) {
  if (tensor.shape == shape) return;
  reject(shape_text(tensor), fmt::format("it must have the dimensions {}", dimensions),
         fmt::format("accepted beside the other tensors: [{}]", fmt::join(shape, ", ")));
}

void require_rank(const Tensor& tensor, std::size_t rank, std::string_view dimensions) {
  if (tensor.shape.size() == rank) return;
  reject(shape_text(tensor), fmt::format("it must have the dimensions {}", dimensions));
}

void require_names(std::span<const Tensor> inputs, std::span<const std::string_view> accepted, const char* op) {
  for (const Tensor& input : inputs) {
    if (std::find(accepted.begin(), accepted.end(), input.name) != accepted.end()) continue;
    reject(fmt::format("tensor {}", input.name), fmt::format("{} has no such input", op),
           fmt::format("accepted: {}", fmt::join(accepted, ", ")));
  }
}

std::string dimensions_of(const ArgumentTable& table, std::span<const FieldHelp> fields, std::string_view descriptor,
                          std::string_view name) {
  return std::string(shape_of(*table.find(name), FieldValues(fields, descriptor)));
}

void require_element(const Tensor& tensor, Element element, std::string_view field) {
  const Element other = element == Element::bf16 ? Element::fp16 : Element::bf16;
  if (tensor.type != element_type(other)) return require_type(tensor, element_type(element));
  reject(fmt::format("tensor {} of type {}", tensor.name, tensor.type),
         fmt::format("it must be {}", element_type(element)),
         fmt::format("or ask for {}={}", field, other == Element::bf16 ? "bf16" : "fp16"));
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
    auto storage = std::make_unique_for_overwrite<char[]>(input.bytes());
    copy_bytes(storage.get(), static_cast<const char*>(input.data), static_cast<std::int64_t>(input.bytes()));
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

double relative_error(double difference, double scale) {
  if (difference == 0) return 0;
  const double error = difference / scale;
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace cubit::check
