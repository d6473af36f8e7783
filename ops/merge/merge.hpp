// The operator merge, which merges partial results of attention. kernel.cpp makes the kernel, launch.cpp turns
// arguments into a launch, operator.cpp registers the operator.
#pragma once

#include <cubit/merge.hpp>

#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& merge_operator();

namespace merge {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<Merge>>& fields();
/// Throws Failure(invalid_argument) with the rule that `text` breaks.
Merge parse(std::string_view text);

int element_bytes(MergeElement element);
std::string_view tensor_type(MergeElement element);  ///< as safetensors spells it
int thread_channels(const Merge& descriptor);        ///< channels of a head per thread: 16 bytes of the wider type
int thread_bytes(const Merge& descriptor, MergeElement element);  ///< of a thread's vector

codegen::KernelSource make_source(const Merge& descriptor, const codegen::Architecture& architecture);
PlanReport make_report(const Merge& descriptor);
/// `pointers` are the descriptor's. Throws Failure(invalid_argument) for what <cubit/merge.h> rules out.
Launch encode(const Merge& descriptor, const PointerChecks& pointers, const void* public_arguments);

/// Throws Failure(invalid_argument) for sizes that <cubit/merge.h> rules out. Launches and problems both use this
/// check.
void check_sizes(const Merge& descriptor, std::int64_t parts, std::int64_t rows, std::int64_t heads);

}  // namespace merge
}  // namespace cubit::ops
