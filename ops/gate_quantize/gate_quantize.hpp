// The operator gate_quantize, which multiplies rows by activated gates and quantises the products. kernel.cpp makes the
// kernel, launch.cpp turns arguments into a launch, operator.cpp registers the operator.
#pragma once

#include <cubit/gate_quantize.hpp>

#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& gate_quantize_operator();

namespace gate_quantize {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<GateQuantize>>& fields();
/// Throws Failure(invalid_argument) with the rule that `text` breaks.
GateQuantize parse(std::string_view text);

codegen::KernelSource make_source(const GateQuantize& descriptor, const codegen::Architecture& architecture);
PlanReport make_report(const GateQuantize& descriptor, const codegen::Architecture& architecture);
/// `pointers` are the descriptor's. Throws Failure(invalid_argument) for what <cubit/gate_quantize.h> rules out.
Launch encode(const GateQuantize& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device);

}  // namespace gate_quantize
}  // namespace cubit::ops
