// Turns public arguments of dequantize into a launch.
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/dequantize/dequantize.hpp"
#include "templates/kernels/quantisation/dequantize_arguments.h"

namespace cubit::ops::dequantize {
namespace {

constexpr int kBlocksPerSm = 4;  ///< 16 warps; fewer leave a multiprocessor without enough loads in flight
constexpr int kBlockColumns = 32;

int element_bytes(const Dequantize& descriptor) { return descriptor.input == QuantisedInteger::int8 ? 1 : 4; }
int column_multiple(const Dequantize& descriptor) {
  constexpr int kBytes = 16;  // rows of codes are a multiple of these bytes
  if (descriptor.layout != RowLayout::row) return kBlockColumns;
  return descriptor.input == QuantisedInteger::int8 ? kBytes : kVectorColumns;
}

void check_tensors(const Dequantize& descriptor, const cubit_dequantize_arguments& arguments) {
  require_alignment("input", arguments.input, &arguments.input_stride, 1, element_bytes(descriptor), 16);
  require_alignment("scale", arguments.scale, nullptr, 0, 1, 4, "align it");
  require_alignment("weight_scale", arguments.weight_scale, nullptr, 0, 1,
                    descriptor.weight_scale == WeightScale::channel ? 16 : 4, "align it");
  require_alignment("bias", arguments.bias, nullptr, 0, 1, 16, "align it");
  if (descriptor.residual) require_alignment("residual", arguments.residual, &arguments.residual_stride, 1, 2, 16);
  require_alignment("output", arguments.output, &arguments.output_stride, 1, 2, 16);
  WrittenDimension dimension[] = {{"output_stride", -1, arguments.rows, arguments.output_stride}};
  require_apart(dimension, arguments.columns);
}

}  // namespace

void check_sizes(const Dequantize& descriptor, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require_argument(rows >= 0 && rows <= kMost, "rows", "it must be from 0 to 2147483647", rows);
  const int multiple = column_multiple(descriptor);
  if (columns < multiple || columns > kMost || columns % multiple != 0) {
    throw Failure(
        Status::invalid_argument, fmt::format("columns = {}", columns),
        fmt::format("it must be a multiple of {} from {} to {}", multiple, multiple, kMost / multiple * multiple));
  }
  // Threads count vectors of 8 columns in four rows with 32 bits.
  constexpr std::int64_t kMostElements = std::int64_t{1} << 36;
  require_argument(rows <= kMostElements / columns, "rows * columns", "it must be at most 68719476736", rows * columns);
}

Launch encode(const Dequantize& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<cubit_dequantize_arguments>(public_arguments, "cubit_dequantize_arguments");
  check_sizes(descriptor, arguments.rows, arguments.columns);
  Launch launch;
  launch.empty = arguments.rows == 0;
  if (launch.empty) return launch;
  pointers.check(&arguments);
  check_tensors(descriptor, arguments);
  DequantizeArguments parameters{};
  parameters.input = static_cast<const char*>(arguments.input);
  parameters.scale = reinterpret_cast<const char*>(arguments.scale);
  parameters.weight_scale = reinterpret_cast<const char*>(arguments.weight_scale);
  parameters.bias = static_cast<const char*>(arguments.bias);
  parameters.residual = static_cast<const char*>(arguments.residual);
  parameters.output = static_cast<char*>(arguments.output);
  parameters.input_stride = arguments.input_stride;
  parameters.residual_stride = 2 * arguments.residual_stride;
  parameters.output_stride = 2 * arguments.output_stride;
  parameters.rows = arguments.rows;
  parameters.vectors = arguments.columns / kVectorColumns;
  const std::int64_t at_once = std::int64_t{device.multiprocessors} * kBlocksPerSm * kThreads;
  const bool are_few = std::int64_t{arguments.rows} * parameters.vectors <= kDequantisedRows * at_once;
  parameters.rows_per_thread = are_few ? 1 : kDequantisedRows;
  const std::int64_t groups =
      (std::int64_t{arguments.rows} + parameters.rows_per_thread - 1) / parameters.rows_per_thread;
  launch.shape = {{static_cast<unsigned>((groups * parameters.vectors + kThreads - 1) / kThreads), 1, 1}, kThreads, 0};
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  return launch;
}

}  // namespace cubit::ops::dequantize
