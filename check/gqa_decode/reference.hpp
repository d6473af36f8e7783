// The reference of the operator gqa_decode: attention in double precision over host tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "check/kv_cache/row_values.hpp"
#include "check/problem.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::check::gqa_decode {

using namespace ops::gqa_decode;

/// How many of a sequence's `length` tokens its last query attends to. `window` is 0 if there is no window.
std::int64_t attended_tokens(std::int64_t length, std::int64_t window, std::int64_t kept_tokens);

/// The position of query token `token` in a sequence of `length` tokens. A negative position does not exist: the token
/// attends to nothing.
inline int query_position(const GqaDecode& descriptor, int length, int token) {
  return length - descriptor.query_tokens + token;
}
/// Whether query token `token` attends to `position`. `mask` is the token's mask word if the descriptor has mask=tree.
bool attends_to(const GqaDecode& descriptor, int length, int token, std::uint32_t mask, int position);

/// The result of one head.
struct ReferenceHead {
  std::vector<double> output;         ///< [value_dim]
  std::vector<double> contributions;  ///< sum over tokens of weight · |value|
  double lse = 0;
  double token_norm =
      0;  ///< root of the sum over tokens of |weight · value|²: the output's norm if the terms were independent
  double centred_norm = 0;  ///< the same norm of weight · scale · (nibble - 7.5) for int4_rows; 0 for other formats
};
/// The rows of one KV head by token, and the scales of each row if the format stores scales in a tensor of their own.
struct HeadRows {
  std::function<const char*(int token)> row;
  std::function<const char*(int token)> scales = [](int) { return nullptr; };
};
/// The modifications of a head's scores; see <cubit/gqa_decode.h>. A user's own modification has no reference.
struct ScoreRules {
  double soft_cap = 0;  ///< 0: none
  double alibi_slope = 0;
  std::int64_t window = 0;  ///< 0: none
  std::int64_t kept_tokens = 0;
  double sink = -std::numeric_limits<double>::infinity();
  int query_position = -1;  ///< negative: the last position
};
/// A query row is one head of one query token.
struct QueryRow {
  const double* channels = nullptr;  ///< [head_dim]
  ScoreRules rules;
  /// Whether the row attends to a position; without this function every position of the window is visible.
  std::function<bool(int position)> is_visible = nullptr;
};
/// The most query rows that reference_heads() takes.
inline constexpr int kMostQueryRows = 8;
/// The results of query rows that attend to the same KV head. Each row of the cache is dequantised once for all query
/// rows, but a result does not depend on the other query rows.
std::vector<ReferenceHead> reference_heads(const GqaDecode& descriptor, std::span<const QueryRow> queries,
                                           const HeadRows& keys, const HeadRows& values, int length,
                                           double softmax_scale);
/// The result of one query row.
ReferenceHead reference_head(const GqaDecode& descriptor, const double* query, const HeadRows& keys,
                             const HeadRows& values, int length, double softmax_scale, const ScoreRules& rules = {},
                             const std::function<bool(int position)>& is_visible = nullptr);

}  // namespace cubit::check::gqa_decode
