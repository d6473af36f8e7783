// Query tokens: the query head and token of each query row, and the positions of the sequence that a query row sees.
//
// The query tokens of a sequence are its last tokens: token s of kTokens is at position length - kTokens + s, and its
// keys and values are already in the cache. If a sequence is shorter than kTokens, the first query tokens have no
// position and see nothing.
//
// A query row is one query head of one query token. The query rows of a KV head are ordered by token: row i is head i %
// kHeadsPerKv of token i / kHeadsPerKv. With one query token, query rows are the heads. Head tiles and head groups are
// tiles and groups of query rows.
//
// Interface of the role plan::Queries; an object belongs to a block, or in the sm_90 kernel to a warp:
//   kTokens, kQueryRows            query tokens of a sequence, and query rows of a KV head
//   place_of(kv_head, row)         query token and query head of a KV head's query row
//   rows(args, batch, kv_head, row)   queries of a block's query rows, the first of which is `row`: row(i) returns an
//                                  address. Callers settle the address; otherwise the compiler computes it again for
//                                  every load
//   query_position(length, row)    position of a query row's token; negative if the token has no position
//   first_reference()              initial softmax reference of a query row; finite if the row may see nothing of a
//                                  tile
//   of_block(args, batch, length, row)   constructor, called by all lanes of a warp; `row` is the first query row
//   seen_by_all()                  every query row sees all positions below this one; tiles of these positions need no
//                                  mask
//   mask(row)                      the mask of one of the block's query rows, called by all lanes of a warp; its
//                                  function sees(position) says whether the row sees a position
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"

namespace cubit {

/// Token and head of a query in a tensor [batch, query tokens, query heads, head_dim].
struct QueryPlace {
  int token;
  int head;
};

/// Mask of a query row that sees all positions below a limit.
struct CausalMask {
  int limit;

  __device__ __forceinline__ bool sees(int position) const { return position < limit; }
};

/// Role for one query token, the last of its sequence, which sees the whole sequence.
template <int kHeadsPerKv>
class OneQueryToken {
 public:
  static constexpr int kTokens = 1;
  static constexpr int kQueryRows = kHeadsPerKv;

  struct Rows {
    const char* first;
    int64 stride;
    __device__ __forceinline__ const char* row(int i) const { return first + i * stride; }
  };

  explicit __device__ __forceinline__ OneQueryToken(int length) : length_(length) {}
  static __device__ __forceinline__ OneQueryToken of_block(const GqaDecodeArguments&, int, int length, int) {
    return OneQueryToken(length);
  }

  static __device__ __forceinline__ QueryPlace place_of(int kv_head, int query_row) {
    return {0, kv_head * kHeadsPerKv + query_row};
  }
  static __device__ __forceinline__ Rows rows(const GqaDecodeArguments& args, int batch, int kv_head, int query_row) {
    return {static_cast<const char*>(args.query) + batch * args.query_batch_stride +
                place_of(kv_head, query_row).head * args.query_head_stride,
            args.query_head_stride};
  }
  static __device__ __forceinline__ int query_position(int length, int) { return length - 1; }
  static __device__ __forceinline__ float first_reference() { return negative_infinity(); }

  __device__ __forceinline__ int seen_by_all() const { return length_; }
  __device__ __forceinline__ CausalMask mask(int) const { return {length_}; }

 private:
  int length_;
};

/// Common base of the roles with several query tokens.
template <int kQueryTokens, int kHeadsPerKv>
class SeveralQueryTokens {
 public:
  static constexpr int kTokens = kQueryTokens;
  static constexpr int kQueryRows = kTokens * kHeadsPerKv;

  struct Rows {
    const char* first;  // first query of the KV head
    int64 token_stride;
    int64 head_stride;
    int query_row;  // first query row
    __device__ __forceinline__ const char* row(int i) const {
      const QueryPlace place = place_of(0, query_row + i);
      return first + place.token * token_stride + place.head * head_stride;
    }
  };

  static __device__ __forceinline__ QueryPlace place_of(int kv_head, int query_row) {
    return {query_row / kHeadsPerKv, kv_head * kHeadsPerKv + query_row % kHeadsPerKv};
  }
  static __device__ __forceinline__ Rows rows(const GqaDecodeArguments& args, int batch, int kv_head, int query_row) {
    return {static_cast<const char*>(args.query) + batch * args.query_batch_stride +
                kv_head * kHeadsPerKv * args.query_head_stride,
            args.query_token_stride, args.query_head_stride, query_row};
  }
  static __device__ __forceinline__ int query_position(int length, int query_row) {
    return length - kTokens + query_row / kHeadsPerKv;
  }
  /// A value below every score. If a query row sees nothing of a tile, its weights are 2^(-inf - reference) = 0.
  static __device__ __forceinline__ float first_reference() { return kBelowEveryScore; }

 protected:
  __device__ __forceinline__ SeveralQueryTokens(int length, int first_query_row)
      : length_(length), first_query_row_(first_query_row) {}

  __device__ __forceinline__ int position(int query_row) const {
    return query_position(length_, first_query_row_ + query_row);
  }

  int length_;
  int first_query_row_;
};

/// Role for causal query tokens: every query token sees itself and all tokens before it.
template <int kQueryTokens, int kHeadsPerKv>
class CausalQueryTokens : public SeveralQueryTokens<kQueryTokens, kHeadsPerKv> {
  using Base = SeveralQueryTokens<kQueryTokens, kHeadsPerKv>;

 public:
  static __device__ __forceinline__ CausalQueryTokens of_block(const GqaDecodeArguments&, int, int length,
                                                               int query_row) {
    return CausalQueryTokens(length, query_row);
  }
  __device__ __forceinline__ int seen_by_all() const { return Base::query_position(this->length_, 0) + 1; }
  __device__ __forceinline__ CausalMask mask(int query_row) const { return {this->position(query_row) + 1}; }

 private:
  using Base::Base;
};

/// Role for a tree of query tokens. Query tokens see all tokens before the first query token, and among the query
/// tokens those that a mask names: bit j of token s's mask word, args.mask [batch, query tokens], says whether token s
/// sees token j. Lane i holds the mask word of token i.
template <int kQueryTokens, int kHeadsPerKv>
class TreeQueryTokens : public SeveralQueryTokens<kQueryTokens, kHeadsPerKv> {
  using Base = SeveralQueryTokens<kQueryTokens, kHeadsPerKv>;
  static_assert(kQueryTokens <= kWarpSize);

 public:
  struct TreeMask {
    int tokens_at;  // position of the first query token
    uint32 word;

    __device__ __forceinline__ bool sees(int position) const {
      const int token = position - tokens_at;
      return token < 0 || (token < kQueryTokens && (word >> token & 1u) != 0);
    }
  };

  static __device__ __forceinline__ TreeQueryTokens of_block(const GqaDecodeArguments& args, int batch, int length,
                                                             int query_row) {
    uint32 word = 0;
    const int token = lane_index();
    if (token < kQueryTokens) word = static_cast<uint32>(args.mask[batch * args.mask_stride + token]);
    return TreeQueryTokens(length, query_row, word);
  }
  __device__ __forceinline__ int seen_by_all() const { return Base::query_position(this->length_, 0); }
  __device__ __forceinline__ TreeMask mask(int query_row) const {
    const int token = Base::place_of(0, this->first_query_row_ + query_row).token;
    // A query row beyond the last has no token, so any mask word will do.
    const uint32 word = __shfl_sync(kFullWarp, word_, token);
    return {Base::query_position(this->length_, 0), this->position(query_row) >= 0 ? word : 0};
  }

 private:
  __device__ __forceinline__ TreeQueryTokens(int length, int query_row, uint32 word)
      : Base(length, query_row), word_(word) {}

  uint32 word_;
};

}  // namespace cubit
