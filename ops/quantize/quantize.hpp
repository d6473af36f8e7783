// The operator quantize, which quantises rows of activations. kernel.cpp makes the kernel, launch.cpp turns arguments
// into a launch, operator.cpp registers the operator.
#pragma once

#include <cubit/quantize.hpp>

#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& quantize_operator();

namespace quantize {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<Quantize>>& fields();
/// Throws Failure(invalid_argument) with the rule that `text` breaks.
Quantize parse(std::string_view text);

codegen::KernelSource make_source(const Quantize& descriptor, const codegen::Architecture& architecture);
PlanReport make_report(const Quantize& descriptor, const codegen::Architecture& architecture);
/// `pointers` are the descriptor's. Throws Failure(invalid_argument) for what <cubit/quantize.h> rules out.
Launch encode(const Quantize& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device);

}  // namespace quantize
}  // namespace cubit::ops
