// Inside the operator gqa_decode: the descriptor with its fields and rules, and the argument table. The header
// family.hpp declares the kernel families.
#pragma once

#include <cubit/gqa_decode.hpp>

#include <string_view>
#include <vector>

#include "ops/argument_table.hpp"
#include "ops/element/element.hpp"
#include "ops/fields.hpp"
#include "ops/kv_cache/row_format.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& gqa_decode_operator();

namespace gqa_decode {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();
/// The pointers of a launch that the descriptor needs, and those that it does not take.
PointerChecks pointer_checks(const GqaDecode& descriptor);

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<GqaDecode>>& fields();

/// The descriptor that `text` spells. Throws Failure(invalid_argument) with the rule that `text` breaks.
GqaDecode parse(std::string_view text);

/// Checks the rules between fields, and those of the named family. parse() has applied them. Throws
/// Failure(invalid_argument).
void validate(const GqaDecode& descriptor);
/// Whether validate() accepts the descriptor.
bool is_served(const GqaDecode& descriptor);

/// The modifications of scores and tokens that the descriptor asks for, out of soft_cap, alibi, score and window,
/// joined by ", "; empty: none.
std::string modifications(const GqaDecode& descriptor);

/// Whether values in int4_rows are computed as nibble - 7.5, for outputs of fp16. Products of weights and scales are
/// rounded: next to nibbles, which have no sign, the rounding error shows in outputs of fp16, but not in those of bf16.
inline bool centres_nibbles(const GqaDecode& descriptor) {
  return kv_cache::formats_of(descriptor).value.kv == KvFormat::int4_rows && descriptor.output == Element::fp16;
}

inline constexpr int kMostQueryTokens = 16;
inline constexpr int kMostSplits = 256;  ///< splits that a launch can ask for

/// Throw Failure(invalid_argument) for a number that is not finite or not of reasonable size.
void check_softmax_scale(double scale);
void check_soft_cap(double cap);

}  // namespace gqa_decode
}  // namespace cubit::ops
