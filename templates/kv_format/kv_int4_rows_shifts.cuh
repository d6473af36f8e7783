// Shift term of int4_rows for scores and for outputs; each is one product with a tile's headers.
//
//   Scores:   S += headers · (0, group sum of Q) pairs
//   Outputs:  shifts += headersᵀ · Pᵀ, and with several head tiles P · headers, which also sums the weights
//
// Centring (kCentred): the products of words use b = fp16(P · scale), where P is the weight in fp16. The rounding error
// of b is multiplied by the nibble n. A nibble has no sign, so the resulting error is several times the error that
// comes from rounding the weights. If the error of b is multiplied by n - 7.5 instead, both errors are of the same
// size. Each group is therefore computed, with no other rounding, as
//
//   Σ b · (n - 7.5) + Σ P · shift + 7.5 · Σ P · scale
//
// The product of b and -7.5 is one more product per group. Its result is added to the sums of P · shift. The sums of
// P · scale come from the same product as the sums of P · shift, because scale and shift are neighbours in the header.
//
// With several head tiles the sum of weights needs a column of this product. If a column has no header value (fewer
// than 4 groups), the sum takes that column. With 4 or 8 groups, the sum takes the column of the first group's scale.
// The first group is then centred at n - 4, and 4 · Σ P · scale is a product of its own. The factor is 4 because
// 7.5 · scale would be rounded, and 8 · scale exceeds fp16 if the values of a group span the whole range of fp16.
#pragma once

#include "attention/query_int4_rows.cuh"
#include "core/mma.cuh"
#include "core/types.cuh"

namespace cubit {

/// Adds the products of key headers and a head tile's sums of Q to `scores`. The sums are at the beginning of `tail`,
/// see Int4QueryWords.
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

/// Sets `scores` to the shift term alone. Like the products of packed words, which are added later, these scores lack
/// the factor 2^24.
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

/// Sums of weight · shift and of weight · scale; if several head tiles share a tile's rows, also the sums of weights.
/// With kCentred the sums include the correction for centring the products of words at n - 7.5. As in mma.cuh, r is
/// lane / 4 and c is lane % 4. Whole warps call all functions.
template <class Shape, class Alignment, int kHeadTiles, bool kCentred>
struct Int4OutputShifts {
  static constexpr bool kManyTiles = kHeadTiles > 1;
  static constexpr int kHeaderChunks = Shape::kHeaderChunks;

  /// With several tiles: column of the sum of weights in chunk 0. With kCentred this is a column without a header
  /// value, if there is one. Otherwise this is column 0, the first group's scale, whose sum is needed only with
  /// kCentred.
  static constexpr bool kHasFreeColumn = Shape::kGroups < 4;
  static constexpr int kWeightColumn = kCentred && kHasFreeColumn ? 7 : 0;
  /// The group whose sum of weight · scale is missing, because the sum of weights occupies that column.
  static constexpr int kGroupWithoutScale = kManyTiles && !kHasFreeColumn ? 0 : -1;

  // With one tile, sums[0][0] is one accumulator whose columns are heads. Row 2g is the sum of weight · scale of group
  // g, and row 2g + 1 is the sum of weight · shift. In unaligned rows, g also counts the words before the header. With
  // several tiles, sums[i][chunk] is an accumulator whose rows are the heads of tiles 2i and 2i + 1, and columns 2c and
  // 2c + 1 are the two sums of group c + 4 · chunk.
  float sums[kManyTiles ? (kHeadTiles + 1) / 2 : 1][kManyTiles ? kHeaderChunks : 1][4] = {};

  /// Adds the products of a tile's value headers and weights. Returns the weights in fp16 in `rounded`. With one tile,
  /// rounded[0] has the weights of heads 2c and 2c + 1 for tokens r and r + 8, as in the scores. With several tiles,
  /// rounded[tile] is transposed: the weights of head r for tokens 2c, 2c + 1 and 2c + 8, 2c + 9. `headers` is as
  /// load_header_matrices<true>() returns it, and add() may change it.
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

  /// With kCentred: adds the products of -7.5 (or -4) and a group's b to the sums of weight · shift. products[tile]
  /// holds b as the B operand of the products of words.
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

  /// Makes a B operand that has 4 times the first group's scales in the column of the first group's shifts, and zeros
  /// in the other columns.
  static __device__ __forceinline__ void make_fours(uint32 (&fours)[2], const uint32 (&headers)[2]) {
    constexpr uint32 kFours = 0x44004400u;
    const int lane = recomputed(lane_index());
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32 scales = __shfl_sync(kFullWarp, headers[i], lane % 4);
      fours[i] = lane / 4 == 1 ? Pair<Half>::product(scales, kFours) : 0u;
    }
  }

  /// Adds the products of a tile's weights and headers with several head tiles. The weights of two head tiles are the A
  /// operand, for which `rounded` is transposed. Ones replace the column kWeightColumn of the headers, so that this
  /// column sums the weights.
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
