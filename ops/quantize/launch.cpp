// Turns public arguments of quantize into a launch.

#include "ops/argument_checks.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantisation/row_kernel.hpp"
#include "ops/quantisation/row_shape.hpp"
#include "ops/quantize/quantize.hpp"
#include "templates/kernels/quantisation/quantize_arguments.h"

namespace cubit::ops::quantize {

Launch encode(const Quantize& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<cubit_quantize_arguments>(public_arguments, "cubit_quantize_arguments");
  quantisation::check_row_sizes(arguments.rows, arguments.columns, quantisation::column_multiple(descriptor));
  if (arguments.rows == 0) return quantisation::no_launch();
  pointers.check(&arguments);
  require_alignment("input", arguments.input, &arguments.input_stride, 1, 2, 16);
  quantisation::check_result(descriptor, arguments.result, arguments.rows, arguments.columns);
  QuantizeArguments parameters{};
  parameters.input = static_cast<const char*>(arguments.input);
  parameters.input_stride = 2 * arguments.input_stride;
  parameters.result = quantisation::kernel_rows(descriptor, arguments.result);
  parameters.shape = quantisation::row_shape(arguments.rows, arguments.columns, device);
  return quantisation::launch_of(parameters);
}

}  // namespace cubit::ops::quantize
