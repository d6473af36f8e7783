// Layouts of a warp's scores: the token and the query row of each accumulator element of a step. Accumulators are those
// of mma.cuh, with r = lane / 4 and c = lane % 4; their rows are tokens in one layout and heads in the other.
//
// Interface of a layout:
//   kSets, kTiles                 a lane holds scores of 2 · kSets query rows, in kTiles accumulators:
//                                 scores[kTiles][4]
//   set(tile), head(i)            which of the lane's query rows element i of accumulator `tile` belongs to: [set][0 or
//                                 1]
//   has(i)                        whether element i belongs to any query row; a constant
//   query_row(lane, set, head)    the index of that query row among the warp's query rows
//   token(lane, tile, i)          the token, counted from the step's first token
//   kNearest, kBeyond             lanes that hold the same query rows: their distances are 1, 2, 4 … times kNearest,
//                                 below kBeyond
//   is_first(lane)                whether the lane is the first that holds its query rows
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/types.cuh"

namespace cubit {

/// 16 tokens × 8 heads in each accumulator: lane (r, c) has tokens r and r + 8 of heads 2c and 2c + 1.
template <int kHeadTiles>
struct TokensByHeads {
  static constexpr int kSets = kHeadTiles;
  static constexpr int kTiles = kHeadTiles;
  static constexpr int kNearest = 4;
  static constexpr int kBeyond = kWarpSize;

  static constexpr __device__ __forceinline__ int set(int tile) { return tile; }
  static constexpr __device__ __forceinline__ int head(int i) { return i & 1; }
  static constexpr __device__ __forceinline__ bool has(int) { return true; }
  static __device__ __forceinline__ int query_row(int lane, int set, int head) {
    return lanes::accumulator_head(lane, set, head);
  }
  static __device__ __forceinline__ int token(int lane, int, int i) { return lane / 4 + i / 2 * 8; }
  static __device__ __forceinline__ bool is_first(int lane) { return lane < 4; }
};

/// 16 heads × 8 tokens in each accumulator: lane (r, c) has tokens 2c and 2c + 1 of heads r and r + 8. kHeadsOfLane is
/// 1 if a warp has at most 8 heads. Head r + 8 is then absent, and elements 2 and 3 have no meaning.
template <int kTokenTiles, int kHeadsOfLane>
struct HeadsByTokens {
  static constexpr int kSets = 1;
  static constexpr int kTiles = kTokenTiles;
  static constexpr int kNearest = 1;
  static constexpr int kBeyond = 4;

  static constexpr __device__ __forceinline__ int set(int) { return 0; }
  static constexpr __device__ __forceinline__ int head(int i) { return i / 2; }
  static constexpr __device__ __forceinline__ bool has(int i) { return head(i) < kHeadsOfLane; }
  static __device__ __forceinline__ int query_row(int lane, int, int head) { return lanes::row_head(lane, head); }
  static __device__ __forceinline__ int token(int lane, int tile, int i) { return 8 * tile + 2 * (lane % 4) + (i & 1); }
  static __device__ __forceinline__ bool is_first(int lane) { return lane % 4 == 0; }
};

}  // namespace cubit
