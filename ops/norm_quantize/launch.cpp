// Turns public arguments of norm_quantize into a launch.
#include <fmt/format.h>

#include <limits>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/norm_quantize/norm_quantize.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantisation/row_kernel.hpp"
#include "ops/quantisation/row_shape.hpp"
#include "templates/kernels/quantisation/norm_quantize_arguments.h"

namespace cubit::ops::norm_quantize {
namespace {

using Arguments = cubit_norm_quantize_arguments;

/// Allows the sum in the place of a tensor that is read only if both have the same stride: a thread reads its values
/// before it writes them, and no other thread reads these values.
void check_sum(const Arguments& arguments) {
  WrittenDimension dimension[] = {{"sum_stride", -1, arguments.rows, arguments.sum_stride}};
  require_apart(dimension, arguments.columns);
  const auto check = [&](const void* other, std::int64_t stride, const char* name) {
    if (arguments.sum != other || arguments.rows == 1 || stride == arguments.sum_stride) return;
    throw Failure(Status::invalid_argument, fmt::format("sum = {}", name),
                  "rows would be overwritten before they are read, for the strides differ",
                  fmt::format("accepted: sum_stride = {} = {}_stride, or tensors that do not overlap", stride, name));
  };
  check(arguments.residual, arguments.residual_stride, "residual");
  check(arguments.input, arguments.input_stride, "input");
}

void check_tensors(const NormQuantize& descriptor, const PointerChecks& pointers, const Arguments& arguments) {
  pointers.check(&arguments);
  check_epsilon(arguments.epsilon);
  require_alignment("input", arguments.input, &arguments.input_stride, 1, 2, 16);
  require_alignment("weight", arguments.weight, nullptr, 0, 2, 16, "align it");
  require_alignment("bias", arguments.bias, nullptr, 0, 2, 16, "align it");
  quantisation::check_result(descriptor, arguments.result, arguments.rows, arguments.columns);
  if (!descriptor.residual) return;
  require_alignment("residual", arguments.residual, &arguments.residual_stride, 1, 2, 16);
  require_alignment("sum", arguments.sum, &arguments.sum_stride, 1, 2, 16);
  check_sum(arguments);
}

/// Vectors of a thread if rows are many. Statistics, scale and codes of a row are a chain of dependent steps, which
/// more columns per thread hide. Kernels with a residual or 16-bit results are bound by memory and want more threads.
int vectors_of(const NormQuantize& descriptor) {
  const bool is_long_chain = !descriptor.residual && descriptor.output != Quantised::none;
  return is_long_chain ? quantisation::kRowVectors : quantisation::kUsualVectors;
}

}  // namespace

void check_epsilon(double epsilon) {
  if (epsilon >= std::numeric_limits<float>::min() && epsilon <= std::numeric_limits<float>::max()) return;
  throw Failure(Status::invalid_argument, fmt::format("epsilon = {}", epsilon),
                "it must be positive and a normal number of float", "accepted: numbers from 2^-126 to 3.4e38");
}

Launch encode(const NormQuantize& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_norm_quantize_arguments");
  quantisation::check_row_sizes(arguments.rows, arguments.columns, quantisation::column_multiple(descriptor),
                                quantisation::kMostComputingThreads);
  if (arguments.rows == 0) return quantisation::no_launch();
  check_tensors(descriptor, pointers, arguments);
  NormQuantizeArguments parameters{};
  parameters.input = static_cast<const char*>(arguments.input);
  parameters.weight = static_cast<const char*>(arguments.weight);
  parameters.bias = static_cast<const char*>(arguments.bias);
  parameters.input_stride = 2 * arguments.input_stride;
  if (descriptor.residual) {
    parameters.residual = static_cast<const char*>(arguments.residual);
    parameters.sum = static_cast<char*>(arguments.sum);
    parameters.residual_stride = 2 * arguments.residual_stride;
    parameters.sum_stride = 2 * arguments.sum_stride;
  }
  parameters.result = quantisation::kernel_rows(descriptor, arguments.result);
  parameters.shape = quantisation::row_shape(arguments.rows, arguments.columns, device,
                                             quantisation::kMostComputingThreads, vectors_of(descriptor));
  parameters.epsilon = arguments.epsilon;
  return quantisation::launch_of(parameters);
}

}  // namespace cubit::ops::norm_quantize
