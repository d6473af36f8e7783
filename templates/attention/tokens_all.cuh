// Tokens of a sequence that are read and seen: all tokens.
//
// Interface of this role, with tokens numbered from the sequence's first:
//   kIsWindow               whether the role depends on more than the length
//   Tokens(args, length, first_query)   constructor, once per block or stage; `first_query` is the position of the
//                           first query token
//   length()                tokens of the sequence
//   visited()               number of tokens that the main loop visits, in whole tiles of 16 except at the end of the
//                           sequence. A visited tile may have tokens that are not read
//   token(index)            visited token number `index`, where index is a multiple of 16; the tokens of the tile are
//                           this token and the next 15
//   has(token)              whether the token is read; has_all(first, count) says so for a range, has_tile(first) for
//                           16 tokens
//   readable(first)         a token that is read, provided that one of the 16 tokens from `first` on is read
//   hides(token, query)     whether the role hides a token from the query at position `query`; hides_any(first, count)
//                           says whether any token of a range may be hidden from any query
#pragma once

#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"

namespace cubit {

class AllTokens {
 public:
  static constexpr bool kIsWindow = false;

  /// For the sm_90 kernel where it counts the rows of a warp instead of token positions.
  __device__ __forceinline__ explicit AllTokens(int length) : length_(length) {}
  __device__ __forceinline__ AllTokens(const GqaDecodeArguments&, int length, int) : length_(length) {}

  __device__ __forceinline__ int length() const { return length_; }
  __device__ __forceinline__ int visited() const { return length_; }
  __device__ __forceinline__ int token(int index) const { return index; }
  __device__ __forceinline__ bool has(int token) const { return token < length_; }
  __device__ __forceinline__ bool has_all(int first, int count) const { return first + count <= length_; }
  __device__ __forceinline__ bool has_tile(int first) const { return has_all(first, 16); }
  __device__ __forceinline__ int readable(int first) const { return first; }
  __device__ __forceinline__ bool hides(int, int) const { return false; }
  __device__ __forceinline__ bool hides_any(int, int) const { return false; }

 private:
  int length_;
};

}  // namespace cubit
