// The operator kv_append, which appends new keys and values to a KV cache. kernel.cpp makes and launches the kernel,
// operator.cpp registers the operator.
#pragma once

#include <cubit/kv_append.hpp>

#include "ops/argument_table.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& kv_append_operator();

namespace kv_append {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<KvAppend>>& fields();
/// Throws Failure(invalid_argument) with the rule that `text` breaks.
KvAppend parse(std::string_view text);

codegen::KernelSource make_source(const KvAppend& descriptor, const codegen::Architecture& architecture);
PlanReport make_report(const KvAppend& descriptor);
/// `pointers` are the descriptor's. Throws Failure(invalid_argument) for what <cubit/kv_append.h> rules out.
Launch encode(const KvAppend& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device);

}  // namespace kv_append
}  // namespace cubit::ops
