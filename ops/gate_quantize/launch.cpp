// Turns public arguments of gate_quantize into a launch.

#include "ops/argument_checks.hpp"
#include "ops/gate_quantize/gate_quantize.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantisation/row_kernel.hpp"
#include "ops/quantisation/row_shape.hpp"
#include "templates/kernels/quantisation/gate_quantize_arguments.h"

namespace cubit::ops::gate_quantize {

Launch encode(const GateQuantize& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device) {
  const auto& arguments =
      checked_arguments<cubit_gate_quantize_arguments>(public_arguments, "cubit_gate_quantize_arguments");
  quantisation::check_row_sizes(arguments.rows, arguments.columns, quantisation::column_multiple(descriptor),
                                quantisation::kMostComputingThreads);
  if (arguments.rows == 0) return quantisation::no_launch();
  pointers.check(&arguments);
  require_alignment("gate", arguments.gate, &arguments.gate_stride, 1, 2, 16);
  require_alignment("up", arguments.up, &arguments.up_stride, 1, 2, 16);
  quantisation::check_result(descriptor, arguments.result, arguments.rows, arguments.columns);
  GateQuantizeArguments parameters{};
  parameters.gate = static_cast<const char*>(arguments.gate);
  parameters.up = static_cast<const char*>(arguments.up);
  parameters.gate_stride = 2 * arguments.gate_stride;
  parameters.up_stride = 2 * arguments.up_stride;
  parameters.result = quantisation::kernel_rows(descriptor, arguments.result);
  parameters.shape =
      quantisation::row_shape(arguments.rows, arguments.columns, device, quantisation::kMostComputingThreads);
  return quantisation::launch_of(parameters);
}

}  // namespace cubit::ops::gate_quantize
