// What the operator gqa_decode computes, in double precision over host tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "check/kv_cache/row_values.hpp"
#include "check/problem.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::check::gqa_decode {

using namespace ops::gqa_decode;

/// Of a sequence of `length` tokens those that a query behind them sees. `window`: 0 where there is none.
std::int64_t seen_tokens(std::int64_t length, std::int64_t window, std::int64_t kept_tokens);

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

}  // namespace cubit::check::gqa_decode
