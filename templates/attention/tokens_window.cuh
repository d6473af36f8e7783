// Tokens of a sequence that are read and seen: a sliding window, and the sequence's first few tokens if the launch
// keeps them (kept_tokens). A query at position p sees positions p - window + 1 … p. Tokens that no query sees are not
// read.
//
// Visited tokens, in tiles of 16:
//
//   sequence   | kept | | not seen by any query    |   | window |
//              0      kept_end        kept_end + skipped        length
//   visited    | kept | | window |
//
// Interface: see tokens_all.cuh.
#pragma once

#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"

namespace cubit {

class WindowOfTokens {
 public:
  static constexpr bool kIsWindow = true;

  __device__ __forceinline__ WindowOfTokens(const GqaDecodeArguments& args, int length, int first_query)
      : length_(length),
        window_(args.window),
        kept_(args.kept_tokens),
        begin_(max(0, first_query - args.window + 1)),
        kept_end_((args.kept_tokens + 15) / 16 * 16),
        skipped_(max(0, begin_ / 16 * 16 - kept_end_)) {}

  __device__ __forceinline__ int length() const { return length_; }
  __device__ __forceinline__ int visited() const { return max(0, length_ - skipped_); }
  __device__ __forceinline__ int token(int index) const { return index < kept_end_ ? index : index + skipped_; }
  __device__ __forceinline__ bool has(int token) const { return token < length_ && (token >= begin_ || token < kept_); }
  __device__ __forceinline__ bool has_all(int first, int count) const {
    return first + count <= length_ && (first >= begin_ || first + count <= kept_);
  }
  __device__ __forceinline__ bool has_tile(int first) const { return has_all(first, 16); }
  __device__ __forceinline__ int readable(int first) const { return first < kept_ ? first : max(first, begin_); }
  __device__ __forceinline__ bool hides(int token, int query) const {
    return token <= query - window_ && token >= kept_;
  }
  /// The last query's window begins last, so this check covers all queries.
  __device__ __forceinline__ bool hides_any(int first, int count) const {
    return first < length_ - window_ && first + count > kept_;
  }

 private:
  int length_;
  int window_;
  int kept_;
  int begin_;  // begin of the first query's window
  int kept_end_;
  int skipped_;
};

}  // namespace cubit
