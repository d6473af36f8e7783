// The operator kv_gather, which reads rows of a KV cache as 16-bit values. kernel.cpp makes the kernel, launch.cpp
// turns arguments into a launch, operator.cpp registers the operator.
#pragma once

#include <cubit/kv_gather.hpp>

#include "ops/argument_table.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& kv_gather_operator();

namespace kv_gather {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<KvGather>>& fields();
/// Throws Failure(invalid_argument) with the rule that `text` breaks.
KvGather parse(std::string_view text);

codegen::KernelSource make_source(const KvGather& descriptor, const codegen::Architecture& architecture);
PlanReport make_report(const KvGather& descriptor);
/// `pointers` are the descriptor's. Throws Failure(invalid_argument) for what <cubit/kv_gather.h> rules out.
Launch encode(const KvGather& descriptor, const PointerChecks& pointers, const void* public_arguments);

}  // namespace kv_gather
}  // namespace cubit::ops
