// Implements the problem of convert_layout: checks, made-up bytes, and the exact comparison with the formulas of
// <cubit/matrix_layout.hpp>.
#include "check/convert_layout/problem.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/parallel.hpp"
#include "check/host_tensors.hpp"
#include "check/made_up_data.hpp"
#include "check/quantisation/row_sizes.hpp"
#include "check/random.hpp"

namespace cubit::check::convert_layout {
namespace {

/// A matrix in a layout, with the dense stride.
struct DenseMatrix {
  MatrixLayout layout = MatrixLayout::row;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  std::int64_t stride() const { return layout == MatrixLayout::row ? columns : kLayoutBlockColumns * rows; }
  std::vector<std::int64_t> shape() const {
    if (layout == MatrixLayout::row) return {rows, columns};
    return {columns / kLayoutBlockColumns, rows, kLayoutBlockColumns};
  }
  std::int64_t place(std::int64_t row, std::int64_t column) const { return offset_of(layout, stride(), row, column); }
};

/// The sizes of a tensor in the layout. Throws Failure(invalid_argument) for other shapes.
DenseMatrix matrix_of(MatrixLayout layout, const Tensor& tensor) {
  if (layout == MatrixLayout::row) {
    require_rank(tensor, 2, "[rows, columns]");
    return {layout, tensor.shape[0], tensor.shape[1]};
  }
  require_rank(tensor, 3, "[columns / 32, rows, 32]");
  require_shape(tensor, {tensor.shape[0], tensor.shape[1], kLayoutBlockColumns}, "[columns / 32, rows, 32]");
  return {layout, tensor.shape[1], kLayoutBlockColumns * tensor.shape[0]};
}

class ConvertProblem final : public quantisation::RowProblem {
 public:
  /// Checks the tensors. Throws Failure(invalid_argument).
  ConvertProblem(const ConvertLayout& descriptor, Tensors inputs) : RowProblem(std::move(inputs)) {
    const Tensor& input = *tensors().find("input");
    if (input.type != "I8" && input.type != "U8" && input.type != "F8_E4M3")
      reject(fmt::format("tensor input of type {}", input.type), "it must have bytes", "accepted: I8, U8, F8_E4M3");
    from_ = matrix_of(descriptor.from, input);
    to_ = {descriptor.to, from_.rows, from_.columns};
    check_sizes(descriptor, from_.rows, from_.columns);
    set_outputs({dense("output", input.type, to_.shape(), nullptr)});
  }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    quantisation::require_addresses(device_data, 1, 1);
    cubit_convert_layout_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.input = device_data[0];
    arguments.output = device_data[1];
    arguments.input_stride = from_.stride();
    arguments.output_stride = to_.stride();
    arguments.rows = static_cast<std::int32_t>(from_.rows);
    arguments.columns = static_cast<std::int32_t>(from_.columns);
    return bytes_of_struct(arguments);
  }

  /// The error of a row is the number of its bytes that differ.
  Comparison compare(std::span<const void* const> got) const override {
    quantisation::require_outputs(got, 1);
    const auto* const source = static_cast<const char*>(tensors().find("input")->data);
    const auto* const found = static_cast<const char*>(got[0]);
    std::vector<double> errors(from_.rows);
    parallel_for(from_.rows, [&](std::int64_t row) {
      for (std::int64_t column = 0; column < from_.columns; ++column)
        if (found[to_.place(row, column)] != source[from_.place(row, column)]) ++errors[row];
    });
    return quantisation::worst_of(errors, 0);
  }

 private:
  DenseMatrix from_;
  DenseMatrix to_;
};

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const ConvertLayout descriptor = parse(text);
  require_names(inputs, ops::convert_layout::arguments().input_names(), "convert_layout");
  quantisation::require_no_numbers(numbers, "convert_layout");
  Tensors taken;
  quantisation::take(taken, inputs, "input", "convert_layout");
  return std::make_unique<ConvertProblem>(descriptor, std::move(taken));
}

std::string random_help() { return "rows, columns"; }

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const ConvertLayout descriptor = parse(text);
  constexpr double kMost = 1 << 24;
  DenseMatrix matrix{descriptor.from, 64, 1024};
  for (const auto& [name, value] : numbers) {
    if (name != "rows" && name != "columns")
      reject(fmt::format("size {}", name), "convert_layout has no such size", "accepted: rows, columns");
    (name == "rows" ? matrix.rows : matrix.columns) = whole_number(name, value, name == "rows" ? 0 : 1, kMost);
  }
  require_made_up(fmt::format("rows = {} and columns = {}", matrix.rows, matrix.columns),
                  static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns), "ask for smaller sizes");
  check_sizes(descriptor, matrix.rows, matrix.columns);
  const std::int64_t bytes = matrix.rows * matrix.columns;
  auto storage = std::make_unique<char[]>(bytes);
  Random random(seed);
  draw_in_order(random, bytes, 1, [&](std::int64_t i, Random& own) { storage[i] = static_cast<char>(own.bits()); });
  Tensors inputs;
  inputs.add(dense("input", "I8", matrix.shape(), nullptr), std::move(storage));
  return std::make_unique<ConvertProblem>(descriptor, std::move(inputs));
}

}  // namespace cubit::check::convert_layout
