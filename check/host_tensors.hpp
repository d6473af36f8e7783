// What the problems of all operators share: tensors in host memory, found by name, and checks of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/problem.hpp"
#include "ops/argument_table.hpp"
#include "ops/element/element.hpp"

namespace cubit::check {

/// Throws Failure(invalid_argument) with the three parts of a sentence.
[[noreturn]] void reject(std::string given, std::string rule, std::string remedy = {});
std::string shape_text(const Tensor& tensor);  ///< "tensor query [2, 16, 128]"
/// A tensor with dense row-major strides.
Tensor dense(std::string name, std::string_view type, std::vector<std::int64_t> shape, void* data);
/// These checks throw Failure(invalid_argument). `dimensions` names the dimensions of a shape for the error.
void require_type(const Tensor& tensor, std::string_view type);
void require_shape(const Tensor& tensor, const std::vector<std::int64_t>& shape, std::string_view dimensions);
void require_rank(const Tensor& tensor, std::size_t rank, std::string_view dimensions);
/// Checks the type of a 16-bit tensor whose element is the descriptor's field `field`. The error says which value of
/// the field accepts the tensor.
void require_element(const Tensor& tensor, Element element, std::string_view field);
/// Checks that every input has an accepted name. `op` names the operator in the error.
void require_names(std::span<const Tensor> inputs, std::span<const std::string_view> accepted, const char* op);

/// The dimensions of the tensor `name` in the operator's argument table, for errors: "[batch, tokens]". `descriptor`
/// has these fields and this canonical text.
std::string dimensions_of(const ArgumentTable& table, std::span<const FieldHelp> fields, std::string_view descriptor,
                          std::string_view name);

/// A problem's own copies of tensors, found by name.
class Tensors {
 public:
  void add(Tensor tensor, std::unique_ptr<char[]> storage);
  /// Adds a tensor of zeros.
  void add_zeros(Tensor tensor);
  /// Copies the tensor `name` of `inputs`. Returns false if `inputs` has none.
  bool take(std::span<const Tensor> inputs, std::string_view name);
  const Tensor* find(std::string_view name) const;  ///< null if there is none
  const std::vector<Tensor>& list() const { return list_; }
  /// The address of the tensor `name` among `device_data`, which is in the order of list(); null if there is none.
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

/// difference / scale, but infinity instead of NaN, so that NaN never passes a comparison.
double relative_error(double difference, double scale);

template <class Arguments>
std::vector<std::byte> bytes_of_struct(const Arguments& arguments) {
  const auto* first = reinterpret_cast<const std::byte*>(&arguments);
  return {first, first + sizeof arguments};
}

}  // namespace cubit::check
