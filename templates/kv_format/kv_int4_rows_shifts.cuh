// Shift term of int4_rows for scores and for outputs; each is one product with a tile's headers.
//
//   Scores:   S += headers · (0, group sum of Q) pairs
//   Outputs:  shifts += headersᵀ · Pᵀ, and with several head tiles P · headers, which also sums the weights
//
// Centring (kCentred): the products of words use b = fp16(P · scale). The roundings of b are multiplied by nibbles,
// which have no sign, so their error is several times the error from rounding the weights. Multiplied by n - 7.5, the
// error is as small. Each group is therefore computed, with no other rounding, as
//
//   Σ b · (n - 7.5) + Σ P · shift + 7.5 · Σ P · scale
//
// One more product per group, of b and -7.5, is added to the sums of P · shift; the sums of P · scale lie next to
// these. With several head tiles the sum of weights needs a column. If a column without a header is free, the sum takes
// that column. With 4 or 8 groups there is none, and the sum takes the column of the first group's scale. The first
// group is then centred at n - 4, and 4 · Σ P · scale is a product of its own: 7.5 · scale would be rounded, and 8 ·
// scale exceeds fp16 if a group spans the range from the least to the greatest number.
#pragma once

#include "attention/query_int4_rows.cuh"
#include "core/mma.cuh"
#include "core/types.cuh"

namespace cubit {

/// Adds the products of key headers and a head tile's sums of Q, which are at the beginning of the operands' tail.
template <class Shape>
__device__ __forceinline__ void add_score_shifts(float (&scores)[4], const uint32 (&headers)[Shape::kHeaderChunks][2],
                                                 const uint32 (&tail)[Int4QueryWords<Shape>::kTail]) {
#pragma unroll
  for (int chunk = 0; chunk < Shape::kHeaderChunks; ++chunk) {
    // The same headers appear twice along k: once against the high parts of the sums, once against the low parts.
    mma_m16n8k16<Half>(scores, headers[chunk][0], headers[chunk][1], headers[chunk][0], headers[chunk][1], tail[chunk],
                       tail[Shape::kHeaderChunks + chunk]);
  }
}

/// Scores of the shift term alone, scaled down like the products of packed words.
template <class Shape, int kHeadTiles, class Query>
__device__ __forceinline__ void begin_with_shifts(float (&scores)[kHeadTiles][4], const Query& query,
                                                  const uint32 (&headers)[Shape::kHeaderChunks][2]) {
#pragma unroll
  for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[tile][i] = 0.f;
    uint32 tail[Int4QueryWords<Shape>::kTail];
    Int4QueryWords<Shape>::get_tail(tail, query, tile);
    add_score_shifts<Shape>(scores[tile], headers, tail);
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[tile][i] *= 1.f / Shape::kSubnormal;
  }
}

/// Sums of weight · shift; if several head tiles share a tile's rows, also the sums of weights. With kCentred the sums
/// include the correction for centring the products of words at n - 7.5.
template <class Shape, class Alignment, int kHeadTiles, bool kCentred>
struct Int4OutputShifts {
  static constexpr bool kManyTiles = kHeadTiles > 1;
  static constexpr int kHeaderChunks = Shape::kHeaderChunks;

  /// With several tiles, the column of the sum of weights in the first block is a column without a header, if there is
  /// one; this matters with kCentred.
  static constexpr bool kHasFreeColumn = Shape::kGroups < 4;
  static constexpr int kWeightColumn = kCentred && kHasFreeColumn ? 7 : 0;
  /// The group whose sum of weight · scale is missing, because the sum of weights occupies that column.
  static constexpr int kGroupWithoutScale = kManyTiles && !kHasFreeColumn ? 0 : -1;

  // With one tile, row 2g is the sum of weight · scale of group g, and row 2g + 1 the sum of weight · shift, both
  // behind the words before the header. With several tiles, rows are heads of two tiles, and columns 2c and 2c + 1 of
  // block i are the two sums of group c + 4i.
  float sums[kManyTiles ? (kHeadTiles + 1) / 2 : 1][kManyTiles ? kHeaderChunks : 1][4] = {};

  /// `rounded` holds the weights in fp16, for rows r and rows r + 8; with several tiles, the weights as operands.
  template <class Softmax>
  __device__ __forceinline__ void add(Softmax& softmax, uint32 (&headers)[kHeaderChunks][2],
                                      const float (&weights)[kHeadTiles][4], uint32 (&rounded)[kHeadTiles][2]) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 2; ++i) rounded[tile][i] = Pair<Half>::pack(weights[tile][2 * i], weights[tile][2 * i + 1]);
    }
    if constexpr (kManyTiles) {
      add_many(headers, rounded);
    } else {
      const uint32 low = rounded[0][0];
      const uint32 high = rounded[0][1];
      softmax.add(0, Pair<Half>::low(low), Pair<Half>::high(low), Pair<Half>::low(high), Pair<Half>::high(high));
      const uint32 second_low = kHeaderChunks == 2 ? headers[kHeaderChunks - 1][0] : 0;
      const uint32 second_high = kHeaderChunks == 2 ? headers[kHeaderChunks - 1][1] : 0;
      mma_m16n8k16<Half>(sums[0][0], headers[0][0], second_low, headers[0][1], second_high, transpose_8x8(low),
                         transpose_8x8(high));
    }
  }

  /// With kCentred: `products` holds a group's weights times scales, rounded, as operands.
  __device__ __forceinline__ void subtract_middles(int group, const uint32 (&products)[kHeadTiles][2]) {
    if constexpr (kCentred) {
      constexpr uint32 kMinusMiddles = 0xc780c780u;  // -7.5
      constexpr uint32 kMinusFours = 0xc400c400u;
      const int place = (2 * (Alignment::words_before_header() + group) + 1) % 8;
      const uint32 number = group == kGroupWithoutScale ? kMinusFours : kMinusMiddles;
      // The value is recomputed, because the main loop has no register left for each group's value.
      const uint32 minus = recomputed(lane_index() / 4) == place ? number : 0u;
      if constexpr (kManyTiles) {
#pragma unroll
        for (int tile = 0; tile < kHeadTiles; tile += 2) {
          const uint32(&even)[2] = products[tile];
          const bool has_odd = tile + 1 < kHeadTiles;
          const uint32 odd[2] = {has_odd ? products[tile + 1][0] : 0, has_odd ? products[tile + 1][1] : 0};
          mma_m16n8k16<Half>(sums[tile / 2][group / 4], even[0], odd[0], even[1], odd[1], minus, minus);
        }
      } else {
        // Groups from 4 on use rows 8 … 15.
        const uint32 low = group < 4 ? minus : 0u;
        const uint32 high = group < 4 ? 0u : minus;
        mma_m16n8k16<Half>(sums[0][0], low, high, low, high, products[0][0], products[0][1]);
      }
    }
  }

  /// The part of a group's outputs that the products of words lack, for head 2c + i; called by all lanes of a warp.
  __device__ __forceinline__ float of(int tile, int i, int group) const {
    const float shift = sum_of(tile, i, group, 1);
    if constexpr (!kCentred) return shift;
    constexpr float kMiddle = 7.5f;
    const float scale = sum_of(tile, i, group, 0);
    return group == kGroupWithoutScale ? shift : shift + kMiddle * scale;
  }

  /// Rescales one element; used with one tile, whose columns are heads like the columns of the outputs.
  __device__ __forceinline__ void rescale_element(int i, float factor) { sums[0][0][i] *= factor; }
  /// Rescales two heads; used with several tiles. `factors` belongs to heads 2c and 2c + 1 of a tile.
  __device__ __forceinline__ void rescale_heads(int tile, const float (&factors)[2]) {
    const int row = lane_index() / 4;
    const float even = __shfl_sync(kFullWarp, factors[0], row / 2);
    const float odd = __shfl_sync(kFullWarp, factors[1], row / 2);
    const float factor = row % 2 == 0 ? even : odd;
#pragma unroll
    for (int chunk = 0; chunk < kHeaderChunks; ++chunk) {
      sums[tile / 2][chunk][tile % 2 * 2] *= factor;
      sums[tile / 2][chunk][tile % 2 * 2 + 1] *= factor;
    }
  }

  /// Passes the sums of weights to the softmax after the main loop; used with several tiles.
  template <class Softmax>
  __device__ __forceinline__ void add_weights(Softmax& softmax) const {
    const int lane = lane_index();
    const float mine = lane < 4 ? 1.f : 0.f;  // the later sums over lanes must count the weights once
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      const float sum = sums[tile / 2][0][tile % 2 * 2 + kWeightColumn % 2];
      const float even = __shfl_sync(kFullWarp, sum, lane % 4 * 8 + kWeightColumn / 2);
      const float odd = __shfl_sync(kFullWarp, sum, lane % 4 * 8 + 4 + kWeightColumn / 2);
      softmax.add(tile, even * mine, odd * mine, 0.f, 0.f);
    }
  }

 private:
  /// Sum for head 2c + i in the first (which = 0) or second (which = 1) row or column of a group.
  __device__ __forceinline__ float sum_of(int tile, int i, int group, int which) const {
    const int column = lane_index() % 4;
    if constexpr (kManyTiles) {
      const int source = 4 * (2 * column + i) + group % 4;
      const int element = tile % 2 * 2 + which;
      const float first = __shfl_sync(kFullWarp, sums[tile / 2][0][element], source);
      if constexpr (Shape::kGroups <= 4) return first;
      const float second = __shfl_sync(kFullWarp, sums[tile / 2][kHeaderChunks - 1][element], source);
      return group < 4 ? first : second;
    } else {
      // Rows below 8 are in elements 0 and 1, and rows from 8 on in elements 2 and 3.
      const int source = (2 * (Alignment::words_before_header() + group) + which) % 8 * 4 + column;
      const float first = __shfl_sync(kFullWarp, sums[tile][0][i], source);
      const float second = Shape::kGroups > 4 ? __shfl_sync(kFullWarp, sums[tile][0][i + 2], source) : 0.f;
      return group < 4 ? first : second;
    }
  }

  /// Makes an operand of the first group's scales times 4, in the column of shifts.
  static __device__ __forceinline__ void make_fours(uint32 (&fours)[2], const uint32 (&headers)[2]) {
    constexpr uint32 kFours = 0x44004400u;
    const int lane = recomputed(lane_index());
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32 scales = __shfl_sync(kFullWarp, headers[i], lane % 4);
      fours[i] = lane / 4 == 1 ? Pair<Half>::product(scales, kFours) : 0u;
    }
  }

  /// Adds a tile's headers with several head tiles. Afterwards `rounded` is transposed into A operands.
  __device__ __forceinline__ void add_many(uint32 (&headers)[kHeaderChunks][2], uint32 (&rounded)[kHeadTiles][2]) {
    constexpr uint32 kOnes = 0x3c003c00u;
    constexpr bool kAddsFours = kCentred && kGroupWithoutScale >= 0;
    uint32 fours[2];
    if constexpr (kAddsFours) make_fours(fours, headers[0]);
    if (lane_index() / 4 == kWeightColumn) headers[0][0] = headers[0][1] = kOnes;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 2; ++i) rounded[tile][i] = transpose_8x8(rounded[tile][i]);
      if (tile % 2 == 0 && tile + 1 < kHeadTiles) continue;
      const uint32(&even)[2] = rounded[tile / 2 * 2];
      const uint32 odd[2] = {tile % 2 == 0 ? 0 : rounded[tile][0], tile % 2 == 0 ? 0 : rounded[tile][1]};
#pragma unroll
      for (int chunk = 0; chunk < kHeaderChunks; ++chunk) {
        mma_m16n8k16<Half>(sums[tile / 2][chunk], even[0], odd[0], even[1], odd[1], headers[chunk][0],
                           headers[chunk][1]);
      }
      if constexpr (kAddsFours)
        mma_m16n8k16<Half>(sums[tile / 2][0], even[0], odd[0], even[1], odd[1], fours[0], fours[1]);
    }
  }
};

}  // namespace cubit
