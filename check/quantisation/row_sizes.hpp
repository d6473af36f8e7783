// What the problems of operators on rows share: sizes, made-up rows, and checks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "check/host_tensors.hpp"
#include "check/problem.hpp"
#include "ops/element/element.hpp"

namespace cubit::check::quantisation {

/// The sizes that `random` accepts.
struct RowSizes {
  std::int64_t rows = 64;
  std::int64_t columns = 1024;
  int pattern = 0;
  bool special = false;

  static std::string help();
};
/// `op` names the operator in errors. Throws Failure(invalid_argument).
RowSizes read_row_sizes(const Numbers& numbers, const char* op);

/// Adds a tensor [rows, columns] of made-up values.
void add_rows(Tensors& tensors, const char* name, Element element, const RowSizes& sizes, std::uint64_t seed);
/// Adds the tensor `scale` [1].
void add_scale(Tensors& tensors, float scale);
/// The number in a tensor `scale`. Throws Failure(invalid_argument) unless the tensor is one F32 number from 2^-100 to
/// 2^100.
float given_scale(const Tensor& tensor);

/// Copies the tensor `name`, which the operator `op` needs. Throws Failure(invalid_argument) if there is none.
void take(Tensors& taken, std::span<const Tensor> inputs, const char* name, const char* op);
/// Throws Failure(invalid_argument) if `numbers` has any.
void require_no_numbers(const Numbers& numbers, const char* op);
void require_addresses(std::span<void* const> device_data, std::size_t inputs, std::size_t outputs);
void require_outputs(std::span<const void* const> got, std::size_t outputs);

/// A problem whose launches read every input and write every output once.
class RowProblem : public Problem {
 public:
  explicit RowProblem(Tensors inputs) : inputs_(std::move(inputs)) {}
  const std::vector<Tensor>& inputs() const final { return inputs_.list(); }
  const std::vector<Tensor>& outputs() const final { return outputs_; }
  std::size_t bytes_read() const final;
  std::size_t bytes_written() const final;

 protected:
  const Tensors& tensors() const { return inputs_; }
  void set_outputs(std::vector<Tensor> outputs) { outputs_ = std::move(outputs); }

 private:
  Tensors inputs_;
  std::vector<Tensor> outputs_;
};

/// The values of one row of a dense 16-bit tensor.
std::vector<float> row_of(Element element, const char* data, std::int64_t row, std::int64_t columns);
/// The largest of the rows' errors.
Problem::Comparison worst_of(const std::vector<double>& errors, double tolerance);

}  // namespace cubit::check::quantisation
