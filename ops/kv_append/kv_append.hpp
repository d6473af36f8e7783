// The operator kv_append, which appends new keys and values to a KV cache. kernel.cpp makes the kernel, launch.cpp
// turns arguments into a launch, operator.cpp registers the operator.
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

/// Blocks that an SM must hold at least, for __launch_bounds__: 9, 8 and 7 blocks leave a thread 56, 64 and 72
/// registers, in which no kernel spills. The angles of half_split take 16 registers of a lane. Pointers to scales,
/// lanes without channels and, on later architectures, values stored differently from keys take some more. SMs with
/// fewer than 2048 threads get 7 blocks: with fewer registers sm_120 would spill, and the slower memory of such SMs
/// needs fewer threads.
int blocks_of(const KvAppend& descriptor, const codegen::Architecture& architecture);
/// Whether the kernel only copies: rows have 16 bits in input and cache, and keys are not rotated.
bool is_copy(const KvAppend& descriptor);

codegen::KernelSource make_source(const KvAppend& descriptor, const codegen::Architecture& architecture);
PlanReport make_report(const KvAppend& descriptor);
/// `pointers` are the descriptor's. Throws Failure(invalid_argument) for what <cubit/kv_append.h> rules out.
Launch encode(const KvAppend& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device);

}  // namespace kv_append
}  // namespace cubit::ops
