// The operator w4_quantize, which rounds weights to 4 bits in a checkpoint's layout. kernel.cpp makes and launches the
// kernel, operator.cpp registers the operator.
#pragma once

#include <cubit/w4_quantize.hpp>

#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& w4_quantize_operator();

namespace w4_quantize {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<W4Quantize>>& fields();
/// Throws Failure(invalid_argument) with the rule that `text` breaks.
W4Quantize parse(std::string_view text);

codegen::KernelSource make_source(const W4Quantize& descriptor, const codegen::Architecture& architecture);
PlanReport make_report(const W4Quantize& descriptor);
/// `pointers` are the descriptor's. Throws Failure(invalid_argument) for what <cubit/w4_quantize.h> rules out.
Launch encode(const W4Quantize& descriptor, const PointerChecks& pointers, const void* public_arguments);

/// Throws Failure(invalid_argument) for sizes that <cubit/w4_quantize.h> rules out. Launches and problems both use this
/// check.
void check_sizes(std::int64_t n, std::int64_t k);
std::int64_t groups_of(const W4Quantize& descriptor, std::int64_t k);

}  // namespace w4_quantize
}  // namespace cubit::ops
