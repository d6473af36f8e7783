// What problems of all operators share: tensors in host memory, by name, and the sentences that refuse them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/problem.hpp"
#include "ops/element/element.hpp"

namespace cubit::check {

/// Throws Failure(invalid_argument).
[[noreturn]] void reject(std::string given, std::string rule, std::string remedy = {});
std::string shape_text(const Tensor& tensor);  ///< "tensor query [2, 16, 128]"
/// A dense tensor.
Tensor dense(std::string name, std::string_view type, std::vector<std::int64_t> shape, void* data);
/// Throw Failure(invalid_argument).
void require_type(const Tensor& tensor, std::string_view type);
void require_shape(const Tensor& tensor, const std::vector<std::int64_t>& shape, const char* dimensions);
void require_rank(const Tensor& tensor, std::size_t rank, const char* dimensions);
/// As require_type, of 16-bit elements that a descriptor's field names: says which value of it would do.
void require_element(const Tensor& tensor, Element element, std::string_view field);
void require_names(std::span<const Tensor> inputs, std::span<const std::string_view> accepted, const char* op);

/// Tensors that a problem owns copies of, found by name.
class Tensors {
 public:
  void add(Tensor tensor, std::unique_ptr<char[]> storage);
  void add_zeros(Tensor tensor);
  /// A copy, where `inputs` has one of this name.
  bool take(std::span<const Tensor> inputs, std::string_view name);
  const Tensor* find(std::string_view name) const;  ///< null: there is none
  const std::vector<Tensor>& list() const { return list_; }
  /// The address among `device_data` of the tensor of this name, or null.
  template <class Element>
  Element* address(std::span<void* const> device_data, std::string_view name) const {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (list_[i].name == name) return static_cast<Element*>(device_data[i]);
    }
    return nullptr;
  }

 private:
  std::vector<Tensor> list_;
  std::vector<std::unique_ptr<char[]>> storage_;
};

/// Relative error that is infinite where it is not a number, so that NaN never passes.
double relative_error(double difference, double scale);

template <class Arguments>
std::vector<std::byte> bytes_of_struct(const Arguments& arguments) {
  const auto* first = reinterpret_cast<const std::byte*>(&arguments);
  return {first, first + sizeof arguments};
}

}  // namespace cubit::check
