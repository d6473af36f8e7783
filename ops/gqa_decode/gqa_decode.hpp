// Inside the operator gqa_decode: the descriptor with its fields and rules, problems, and the reference. The header
// family.hpp declares the kernel families.
#pragma once

#include <cubit/gqa_decode.hpp>

#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "ops/element/element.hpp"
#include "ops/fields.hpp"
#include "ops/kv_cache/row_format.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& gqa_decode_operator();

namespace gqa_decode {

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<GqaDecode>>& fields();

/// The descriptor that `text` spells. Throws Failure(invalid_argument) with the rule that `text` breaks.
GqaDecode parse(std::string_view text);

/// Checks the rules between fields, and those of the named family. parse() has applied them. Throws
/// Failure(invalid_argument).
void validate(const GqaDecode& descriptor);

/// The modifications of scores and tokens that the descriptor asks for, out of soft_cap, alibi, score and window, joined
/// by ", "; empty: none.
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

/// Tokens of a sequence of `length` tokens that a query behind them sees. `window`: 0 if there is none.
std::int64_t seen_tokens(std::int64_t length, std::int64_t window, std::int64_t kept_tokens);

/// The table of docs/performance/gqa_decode.md.
std::vector<BenchCase> bench_cases();

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);

/// Where query token `token` of a sequence of `length` tokens stands; negative: nowhere, it sees nothing.
inline int query_position(const GqaDecode& descriptor, int length, int token) {
  return length - descriptor.query_tokens + token;
}
/// Whether it sees a position of the sequence. `mask`: its word, where the descriptor has mask=tree.
bool sees(const GqaDecode& descriptor, int length, int token, std::uint32_t mask, int position);

/// Attention in double precision over host tensors.
struct ReferenceHead {
  std::vector<double> output;         ///< [value_dim]
  std::vector<double> contributions;  ///< sum over tokens of weight · |value|
  double lse = 0;
  double token_norm = 0;  ///< root of the sum over tokens of |weight · value|²: of independent ones the output's norm
  double centred_norm = 0;  ///< the same of int4_rows' scale · (nibble - 7.5); else 0
};
/// Rows of one KV head: of a token its row, and where the format has scales of their own its scales.
struct HeadRows {
  std::function<const char*(int token)> row;
  std::function<const char*(int token)> scales = [](int) { return nullptr; };
};
/// What a head's scores go through: see <cubit/gqa_decode.h>. A user's own modification has no reference.
struct ScoreRules {
  double soft_cap = 0;  ///< 0: none
  double alibi_slope = 0;
  std::int64_t window = 0;  ///< 0: none
  std::int64_t kept_tokens = 0;
  double sink = -std::numeric_limits<double>::infinity();
  int query_position = -1;  ///< negative: the last
};
/// `is_seen`: of a position; of none: all are that a window leaves.
ReferenceHead reference_head(const GqaDecode& descriptor, const double* query, const HeadRows& keys,
                             const HeadRows& values, int length, double softmax_scale, const ScoreRules& rules = {},
                             const std::function<bool(int position)>& is_seen = nullptr);

}  // namespace gqa_decode
}  // namespace cubit::ops
