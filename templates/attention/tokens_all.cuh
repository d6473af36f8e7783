// Which tokens of a sequence are read and seen: all of them.
//
// Interface of this role; tokens are numbered from the sequence's first:
//   kIsWindow               whether there is more to know than the length
//   Tokens(args, length, first_query)   once per block or stage; `first_query`: position of its first query token
//   walked()                tokens that the loop walks over, of which token(index) is number `index`; index is a
//                           multiple of 16, and the 15 behind it follow
//   has(token)              whether it is read; has_all(first, count): whether so many are, has_tile(first): whether 16
//                           are
//   readable(first)         a token that is read, if one of the 16 from `first` on is
//   hides(token, query)     of a token that the query at that position might see: whether it does not; hides_any(first,
//                           count): whether that can be of any query and any of so many
#pragma once

#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"

namespace cubit {

class AllTokens {
 public:
  static constexpr bool kIsWindow = false;

  __device__ __forceinline__ explicit AllTokens(int length) : length_(length) {}
  __device__ __forceinline__ AllTokens(const GqaDecodeArguments&, int length, int) : length_(length) {}

  __device__ __forceinline__ int length() const { return length_; }
  __device__ __forceinline__ int walked() const { return length_; }
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
