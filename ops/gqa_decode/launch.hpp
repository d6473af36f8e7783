// The parts of a launch that all kernel families of gqa_decode encode: checks of public arguments, tensors, scores and
// the workspace. A family decides how blocks share the work and encodes the rest. No device call, no allocation.
#pragma once

#include <cubit/gqa_decode.h>

#include <cstddef>
#include <cstdint>

#include "ops/gqa_decode/plan.hpp"
#include "templates/kernels/attention/gqa_decode_arguments.h"

namespace cubit::ops::gqa_decode {

/// The arguments, with the bounds checked on which grid and workspace depend. Throws Failure(invalid_argument).
const cubit_gqa_decode_arguments& checked_bounds(const GqaDecode& descriptor, const void* public_arguments);
/// Checks everything else of a launch that is not empty. Throws Failure(invalid_argument).
void check_tensors(const CommonPlan& plan, const cubit_gqa_decode_arguments& arguments);
/// Throws Failure(invalid_argument) for a number of splits that a launch cannot ask for.
void check_splits(const cubit_gqa_decode_arguments& arguments);

/// Sequences that are split by themselves, each with a counter: one for each (sequence, KV head, head group).
std::int64_t count_sequences(const CommonPlan& plan, const cubit_gqa_decode_arguments& arguments);
/// The most tokens that a block reads of a sequence: the tokens that are kept and the window, each in whole tiles.
int most_read_tokens(const GqaDecode& descriptor, const cubit_gqa_decode_arguments& arguments);

/// Bytes of workspace for so many partial results, one for each query row of each slot.
std::size_t workspace_for(const CommonPlan& plan, std::int64_t partial_rows);

/// Sets addresses, strides in bytes, and what the roles for scores read. The family sets the other members.
void add_tensors(GqaDecodeArguments& result, const GqaDecode& descriptor, const cubit_gqa_decode_arguments& arguments);
void add_scores(GqaDecodeArguments& result, const GqaDecode& descriptor, const cubit_gqa_decode_arguments& arguments);
/// Sets the addresses of counters and partial results; null if there are no partial results.
void add_workspace(GqaDecodeArguments& result, std::int64_t partial_rows, void* workspace);

}  // namespace cubit::ops::gqa_decode
