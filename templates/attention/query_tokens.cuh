// Query tokens: which query a column of the score tile is, and which positions of its sequence it sees.
//
// The query tokens of a sequence are its last: of kTokens, token s stands at position length - kTokens + s, and its
// keys and values are in the cache. In a sequence that is shorter the first of them stand nowhere and see nothing.
//
// The columns of a KV head are its query heads, of token after token: column c is head c % kHeadsPerKv of token
// c / kHeadsPerKv. With one token columns are heads. Head tiles and head groups are tiles and groups of columns.
//
// Interface of the role plan::Queries, which belongs to a block, in family sm90 to a warp:
//   kTokens, kColumns              query tokens of a sequence, and columns of a KV head
//   place_of(kv_head, column)      which query token and which query head a KV head's column is
//   rows(args, batch, kv_head, column)   the queries of a block's columns, the first of which is `column`: row(i) is an
//                                  address, to be settled, or the compiler computes it anew for every load
//   query_position(length, column) where a column's query token stands; negative: nowhere
//   first_reference()              what the softmax of a column begins with; finite where it may see nothing of a tile
//   of_block(args, batch, length, column)   by all lanes of a warp; `column` is its first
//   seen_by_all()                  every column sees all positions below: their tiles need no mask
//   sight(column)                  by all lanes of a warp: what one of the block's columns sees, as sees(position)
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"

namespace cubit {

/// Which query, of a tensor [batch, query tokens, query heads, head_dim].
struct QueryPlace {
  int token;
  int head;
};

/// Sees the positions below.
struct SeesBelow {
  int limit;

  __device__ __forceinline__ bool sees(int position) const { return position < limit; }
};

/// One query token, the last: it sees the whole sequence.
template <int kHeadsPerKv>
class OneQueryToken {
 public:
  static constexpr int kTokens = 1;
  static constexpr int kColumns = kHeadsPerKv;

  struct Rows {
    const char* first;
    int64 stride;
    __device__ __forceinline__ const char* row(int i) const { return first + i * stride; }
  };

  explicit __device__ __forceinline__ OneQueryToken(int length) : length_(length) {}
  static __device__ __forceinline__ OneQueryToken of_block(const GqaDecodeArguments&, int, int length, int) {
    return OneQueryToken(length);
  }

  static __device__ __forceinline__ QueryPlace place_of(int kv_head, int column) {
    return {0, kv_head * kHeadsPerKv + column};
  }
  static __device__ __forceinline__ Rows rows(const GqaDecodeArguments& args, int batch, int kv_head, int column) {
    return {static_cast<const char*>(args.query) + batch * args.query_batch_stride +
                place_of(kv_head, column).head * args.query_head_stride,
            args.query_head_stride};
  }
  static __device__ __forceinline__ int query_position(int length, int) { return length - 1; }
  static __device__ __forceinline__ float first_reference() { return negative_infinity(); }

  __device__ __forceinline__ int seen_by_all() const { return length_; }
  __device__ __forceinline__ SeesBelow sight(int) const { return {length_}; }

 private:
  int length_;
};

/// What several query tokens have in common, whatever they see of one another.
template <int kQueryTokens, int kHeadsPerKv>
class QueryColumns {
 public:
  static constexpr int kTokens = kQueryTokens;
  static constexpr int kColumns = kTokens * kHeadsPerKv;

  struct Rows {
    const char* first;  // of the KV head
    int64 token_stride;
    int64 head_stride;
    int column;  // the first
    __device__ __forceinline__ const char* row(int i) const {
      const QueryPlace place = place_of(0, column + i);
      return first + place.token * token_stride + place.head * head_stride;
    }
  };

  static __device__ __forceinline__ QueryPlace place_of(int kv_head, int column) {
    return {column / kHeadsPerKv, kv_head * kHeadsPerKv + column % kHeadsPerKv};
  }
  static __device__ __forceinline__ Rows rows(const GqaDecodeArguments& args, int batch, int kv_head, int column) {
    return {static_cast<const char*>(args.query) + batch * args.query_batch_stride +
                kv_head * kHeadsPerKv * args.query_head_stride,
            args.query_token_stride, args.query_head_stride, column};
  }
  static __device__ __forceinline__ int query_position(int length, int column) {
    return length - kTokens + column / kHeadsPerKv;
  }
  /// Below every score: of a tile in which a column sees nothing, its weights are 2^(-inf - this), which is 0.
  static __device__ __forceinline__ float first_reference() { return kBelowEveryScore; }

 protected:
  __device__ __forceinline__ QueryColumns(int length, int first_column)
      : length_(length), first_column_(first_column) {}

  __device__ __forceinline__ int position(int column) const { return query_position(length_, first_column_ + column); }

  int length_;
  int first_column_;
};

/// Every query token sees itself and all before it.
template <int kQueryTokens, int kHeadsPerKv>
class CausalQueryTokens : public QueryColumns<kQueryTokens, kHeadsPerKv> {
  using Columns = QueryColumns<kQueryTokens, kHeadsPerKv>;

 public:
  static __device__ __forceinline__ CausalQueryTokens of_block(const GqaDecodeArguments&, int, int length, int column) {
    return CausalQueryTokens(length, column);
  }
  __device__ __forceinline__ int seen_by_all() const { return Columns::query_position(this->length_, 0) + 1; }
  __device__ __forceinline__ SeesBelow sight(int column) const { return {this->position(column) + 1}; }

 private:
  using Columns::Columns;
};

/// Query tokens see all that stands before the first of them, and of one another those that a mask names: bit j of
/// token s's word, of args.mask [batch, query tokens], is whether s sees j. Lane i keeps the word of token i.
template <int kQueryTokens, int kHeadsPerKv>
class TreeQueryTokens : public QueryColumns<kQueryTokens, kHeadsPerKv> {
  using Columns = QueryColumns<kQueryTokens, kHeadsPerKv>;
  static_assert(kQueryTokens <= kWarpSize);

 public:
  struct Sight {
    int tokens_at;  // where the first query token stands
    uint32 word;

    __device__ __forceinline__ bool sees(int position) const {
      const int token = position - tokens_at;
      return token < 0 || (token < kQueryTokens && (word >> token & 1u) != 0);
    }
  };

  static __device__ __forceinline__ TreeQueryTokens of_block(const GqaDecodeArguments& args, int batch, int length,
                                                             int column) {
    uint32 word = 0;
    const int token = lane_index();
    if (token < kQueryTokens) word = static_cast<uint32>(args.mask[batch * args.mask_stride + token]);
    return TreeQueryTokens(length, column, word);
  }
  __device__ __forceinline__ int seen_by_all() const { return Columns::query_position(this->length_, 0); }
  __device__ __forceinline__ Sight sight(int column) const {
    const int token = Columns::place_of(0, this->first_column_ + column).token;
    // A column beyond the last has no token: any word will do.
    const uint32 word = __shfl_sync(kFullWarp, word_, token);
    return {Columns::query_position(this->length_, 0), this->position(column) >= 0 ? word : 0};
  }

 private:
  __device__ __forceinline__ TreeQueryTokens(int length, int column, uint32 word)
      : Columns(length, column), word_(word) {}

  uint32 word_;
};

}  // namespace cubit
