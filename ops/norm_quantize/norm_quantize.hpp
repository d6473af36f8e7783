// The operator norm_quantize, which normalises rows of activations and quantises them. kernel.cpp makes the kernel,
// launch.cpp turns arguments into a launch, operator.cpp registers the operator.
#pragma once

#include <cubit/norm_quantize.hpp>

#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& norm_quantize_operator();

namespace norm_quantize {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<NormQuantize>>& fields();
/// Throws Failure(invalid_argument) with the rule that `text` breaks.
NormQuantize parse(std::string_view text);

/// Throws Failure(invalid_argument) unless `epsilon` is positive and a normal number of float: squares that underflow
/// are small beside such a number.
void check_epsilon(double epsilon);

codegen::KernelSource make_source(const NormQuantize& descriptor, const codegen::Architecture& architecture);
PlanReport make_report(const NormQuantize& descriptor, const codegen::Architecture& architecture);
/// `pointers` are the descriptor's. Throws Failure(invalid_argument) for what <cubit/norm_quantize.h> rules out.
Launch encode(const NormQuantize& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device);

}  // namespace norm_quantize
}  // namespace cubit::ops
