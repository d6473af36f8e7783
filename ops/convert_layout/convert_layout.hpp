// The operator convert_layout, which converts matrices of bytes between layouts. kernel.cpp makes the kernel,
// launch.cpp turns arguments into a launch, operator.cpp registers the operator.
#pragma once

#include <cubit/convert_layout.hpp>

#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& convert_layout_operator();

namespace convert_layout {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<ConvertLayout>>& fields();
/// Throws Failure(invalid_argument) with the rule that `text` breaks.
ConvertLayout parse(std::string_view text);

/// Throws Failure(invalid_argument) unless both layouts hold the matrix without a partial tile.
void check_sizes(const ConvertLayout& descriptor, std::int64_t rows, std::int64_t columns);

inline constexpr int kThreads = 256;  ///< of a block

codegen::KernelSource make_source(const ConvertLayout& descriptor, const codegen::Architecture& architecture);
PlanReport make_report(const ConvertLayout& descriptor);
/// `pointers` are the descriptor's. Throws Failure(invalid_argument) for what <cubit/convert_layout.h> rules out.
Launch encode(const ConvertLayout& descriptor, const PointerChecks& pointers, const void* public_arguments);

}  // namespace convert_layout
}  // namespace cubit::ops
