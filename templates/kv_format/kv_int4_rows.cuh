// KV number format int4_rows: a header of kGroups (scale, shift) pairs in fp16, then head_dim nibbles, low nibble
// first; value = scale · nibble + shift.
//
// Nibbles are never dequantised. `word & 0x000f000f` is a pair of fp16 subnormals n0 · 2^-24, `word & 0x00f000f0` is
// the pair 16 · n1 · 2^-24, and tensor cores multiply subnormals exactly. A word therefore yields the channel pairs (0,
// 4), (1, 5), (2, 6) and (3, 7) along k, and Q's registers have the same order. Accumulators are multiplied by 2^24 at
// the end, and Q's odd channels are divided by 16 in advance. Values use the cheaper pair n0 + 16 · n1 (`word &
// 0x00ff00ff`, or a word's upper bytes unmasked), and store() separates the two channels. Keys cannot use that pair: Q
// would need the difference of two channels, which is not exact.
//
//   A stage's row:  | header, padded with zeros to 16 bytes | head_dim / 2 bytes of words |
//
// Unaligned rows lie in the stage as in the cache instead, see kv_int4_rows_alignment.cuh. A matrix of ldmatrix is 8
// rows × 16 bytes: 32 channels. With r = lane / 4 and c = lane % 4, lane (r, c) receives word c of row r, which holds
// channels 8c … 8c+7. After transposition, the lane receives half word r of rows 2c and 2c+1, which holds channels
// 4r … 4r+3.
//
//   Scores:   per group  S += scale · (K words · Qᵀ),  and once per tile  S += headers · (0, group sum of Q) pairs
//   Outputs:  per group  Oᵀ += (V words)ᵀ · (P · scale)ᵀ,  and once per tile  shifts += headersᵀ · Pᵀ
//
// With kCentred, for fp16 outputs, the products are taken with n - 7.5 to reduce the rounding error of P · scale, see
// kv_int4_rows_shifts.cuh.
//
// This file has the products of words. The products of headers are in kv_int4_rows_shifts.cuh, and Q's registers in
// query_int4_rows.cuh. Interface of a number format: see gqa_decode_block.cuh.
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "attention/online_softmax.cuh"
#include "attention/query_int4_rows.cuh"
#include "attention/query_operands.cuh"
#include "core/copies.cuh"
#include "core/mma.cuh"
#include "core/types.cuh"
#include "kv_format/kv_int4_rows_alignment.cuh"
#include "kv_format/kv_int4_rows_loads.cuh"
#include "kv_format/kv_int4_rows_shape.cuh"
#include "kv_format/kv_int4_rows_shifts.cuh"
#include "kv_format/kv_scales.cuh"

namespace cubit {

/// kAddress(row, byte) is the offset of a byte in a stage. kQueryIsShared applies to keys, see query_operands.cuh.
/// kBefore applies to unaligned rows, see kv_int4_rows_alignment.cuh; null means aligned rows. kCentred applies to
/// values. With kRecomputesLanes, everything derived from the lane index is computed again at each use.
template <class QueryElement, int kHeadDim, int kGroups, int kHeads, int kAlignment, int (*kAddress)(int, int),
          bool kQueryIsShared = false, int (*kBefore)() = nullptr, bool kCentred = false, bool kRecomputesLanes = false>
struct Int4Rows : WithoutScales {
  using Shape = Int4RowsShape<kHeadDim, kGroups>;
  using Loads = Int4RowsLoads<Shape, kAddress, kRecomputesLanes>;
  using Alignment = Int4RowsAlignment<Shape, Loads, kBefore>;
  static constexpr int kTileRows = lanes::kTileRows;
  static constexpr int kHeadTiles = (kHeads + 7) / 8;
  static constexpr int kTilesPerStep = 1;
  using Layout = TokensByHeads<kHeadTiles>;
  static constexpr int kMatrices = Shape::kMatrices;
  static constexpr int kHeaderBytes = Shape::kHeaderBytes;
  static constexpr int kHeaderChunks = Shape::kHeaderChunks;
  static constexpr int kRowBytes = Shape::kRowBytes;
  static constexpr uint32 kEven = 0x000f000fu;
  static constexpr uint32 kOdd = 0x00f000f0u;
  static constexpr uint32 kBoth = 0x00ff00ffu;

  using RawQuery = QueryForInt4Rows<QueryElement, Shape, Alignment, kHeadTiles, kAlignment>;
  using QueryWords = Int4QueryWords<Shape>;
  static constexpr int kQueryWords = QueryWords::kCount;
  using Query = typename ChooseQuery<kQueryIsShared, kHeadTiles, kQueryWords>::Type;
  /// OneTile makes the operands of a single head tile for shared memory. The factor that is passed to its load_query()
  /// must be multiplied by kSharedQueryFactor: load_query() includes the factor 2^24 that the products of packed words
  /// lack, but with shared operands scores() applies 2^24 to each group's products itself.
  static constexpr float kSharedQueryFactor = 1.f / Shape::kSubnormal;
  using OneTile =
      Int4Rows<QueryElement, kHeadDim, kGroups, 8, kAlignment, kAddress, false, nullptr, kCentred, kRecomputesLanes>;

  /// True if several head tiles share a tile's rows, which leaves fewer registers per head tile. Weights are then
  /// transposed once, before they are multiplied by the scales of the groups. In the shift term of the outputs, the
  /// transposed weights of two head tiles are the A operand, so that heads are the M dimension. That product also sums
  /// the weights.
  static constexpr bool kManyTiles = kHeadTiles > 1;
  using OutputShifts = Int4OutputShifts<Shape, Alignment, kHeadTiles, kCentred>;
  static constexpr bool kSumsWeights = kManyTiles;

  static_assert(Alignment::kIsAligned || (kHeadTiles == 1 && !kQueryIsShared));
  /// Independent accumulators of a group's products. They shorten the dependence chains where there are few groups and
  /// enough registers.
  static constexpr int kMostSums = kGroups == 1 ? 4 : kHeadDim < 256 ? 2 : 1;
  static constexpr int kSums = Alignment::kIsAligned                  ? 1
                               : Shape::kMatricesPerGroup < kMostSums ? Shape::kMatricesPerGroup
                                                                      : kMostSums;

  struct Accumulator {
    // With channel x = 32i + 4r + 2h: block 2i + h has the sums of channel x in elements 0 and 1, and the sums of
    // channel x plus 16 times the sums of channel x + 1 in elements 2 and 3, for heads 2c and 2c + 1. All sums lack the
    // factor 2^24.
    float blocks[kHeadTiles][2 * kMatrices][4] = {};
    OutputShifts shifts;
  };

  /// Weights are multiplied by the scales of values.
  static constexpr bool kWeightsAreScaled = true;

  /// Headers of a tile's values: (scale, shift) of rows r and r + 8, and the largest |scale| of these rows. With
  /// kManyTiles: the scales of rows 2c and 2c + 1, and of 2c + 8 and 2c + 9.
  struct ValueScales {
    uint32 pairs[2][kGroups];
    float peak;
  };

  static constexpr __device__ __forceinline__ int stage_byte(int row_byte) {
    return row_byte < kHeaderBytes ? row_byte : row_byte + (Shape::kWordsStart - kHeaderBytes);
  }
  static __device__ __forceinline__ void clear_padding(uint32 stage, int first_row) {
    Loads::clear_padding(stage, first_row);
  }

  template <class Rows>
  static __device__ __forceinline__ void fetch_query(RawQuery& raw, Rows rows, int heads) {
    raw.fetch(rows, heads);
  }
  static __device__ __forceinline__ void load_query(Query& query, const RawQuery& raw, float factor) {
    raw.make_operands(query, factor);
  }

  template <class TileScales>
  static __device__ __forceinline__ void scores(const Query& query, uint32 stage, const TileScales&,
                                                float (&scores)[kHeadTiles][4]) {
    const int lane = lane_index<kRecomputesLanes>();
    // The tail of a shared query operand holds the sums of Q and the factors. The tail is loaded once, after the words,
    // so the shift term comes last.
    constexpr bool kShiftsLast = Query::kIsShared;
    uint32 words[kMatrices][2];
    if constexpr (kShiftsLast) {
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile)
        scores[tile][0] = scores[tile][1] = scores[tile][2] = scores[tile][3] = 0.f;
    } else {
      uint32 headers[kHeaderChunks][2];
      if constexpr (Alignment::kIsAligned) {
        Loads::template load_header_matrices<false>(headers, stage);
      } else {
        Alignment::template load<false>(headers, words, stage, lane);
      }
      begin_with_shifts<Shape>(scores, query, headers);
    }
    uint32 pairs[2][kGroups];              // (scale, shift) of rows r and r + 8
    Loads::load_headers(pairs, stage, 0);  // access: loads of key scales
    if constexpr (!kShiftsLast && Alignment::kIsAligned) Loads::template load_words<false>(words, stage, lane);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      float sums[kSums][kHeadTiles][4] = {};
#pragma unroll
      for (int i = 0; i < Shape::kMatricesPerGroup; ++i) {
        float(&products)[kHeadTiles][4] = sums[i % kSums];
        const int matrix = Shape::first_matrix(group) + i;
        if constexpr (kShiftsLast) {
          if (matrix % 2 == 0 && !Shape::is_begun(matrix, group))
            Loads::template load_two<false>(words, stage, lane, matrix);
        }
        // In a matrix that two groups share, `mine` keeps the Q channels of this group. recomputed(-1) hides the
        // constant from the compiler.
        uint32 mine = 0xffffffffu;
        if (Shape::is_shared(matrix, group))
          mine = Alignment::word_of(lane) / 2 == Shape::half_of(matrix, group) ? recomputed(-1) : 0u;
        const uint32 low[2] = {words[matrix][0], upper_bytes(words[matrix][0])};
        const uint32 high[2] = {words[matrix][1], upper_bytes(words[matrix][1])};
#pragma unroll
        for (int tile = 0; tile < kHeadTiles; ++tile) {
          uint32 b[4];
          query.get(b, tile, 4 * matrix);
#pragma unroll
          for (int step = 0; step < 2; ++step) {
            mma_m16n8k16<Half>(products[tile], low[step] & kEven, high[step] & kEven, low[step] & kOdd,
                               high[step] & kOdd, b[2 * step] & mine, b[2 * step + 1] & mine);
          }
        }
      }
      float(&products)[kHeadTiles][4] = sums[0];
#pragma unroll
      for (int sum = 1; sum < kSums; ++sum) {
#pragma unroll
        for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
          for (int i = 0; i < 4; ++i) products[tile][i] += sums[sum][tile][i];
        }
      }
      // If the shift term comes last, the shifts are added unscaled. The factor that the products of packed words lack
      // is applied here.
      constexpr float kLacking = 1.f / kSharedQueryFactor;
      const float scale_low = Pair<Half>::low(pairs[0][group]) * (kShiftsLast ? kLacking : 1.f);
      const float scale_high = Pair<Half>::low(pairs[1][group]) * (kShiftsLast ? kLacking : 1.f);
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[tile][i] += (i < 2 ? scale_low : scale_high) * products[tile][i];
      }
    }
    uint32 headers[kHeaderChunks][2];
    if constexpr (kShiftsLast) Loads::template load_header_matrices<false>(headers, stage);
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      uint32 tail[QueryWords::kTail];
      QueryWords::get_tail(tail, query, tile);
      if constexpr (kShiftsLast) add_score_shifts<Shape>(scores[tile], headers, tail);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] *= QueryWords::factor(tail, i);
    }
  }

  template <class Softmax>
  static __device__ __forceinline__ void accumulate(Accumulator& output, Softmax& softmax, uint32 stage,
                                                    const ValueScales& scales, const float (&weights)[kHeadTiles][4]) {
    const int lane = lane_index<kRecomputesLanes>();
    uint32 words[kMatrices][2];
    uint32 headers[kHeaderChunks][2];
    Alignment::template load<true>(headers, words, stage, lane);

    uint32 rounded[kHeadTiles][2];
    output.shifts.add(softmax, headers, weights, rounded);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      uint32 b[kHeadTiles][2];
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32 pairs = scales.pairs[i][group];
          b[tile][i] = kManyTiles ? Pair<Half>::product(rounded[tile][i], pairs)
                                  : transpose_8x8(Pair<Half>::multiply_by_low(rounded[tile][i], pairs));
        }
      }
      output.shifts.subtract_middles(group, b);
#pragma unroll
      for (int i = 0; i < Shape::kMatricesPerGroup; ++i) {
        const int matrix = Shape::first_matrix(group) + i;
        uint32 x = words[matrix][0];
        uint32 y = words[matrix][1];
        if (Shape::is_shared(matrix, group)) {
          // After transposition a lane has 4 channels of the matrix: half words 0-3 are the first half of the matrix,
          // and half words 4-7 are the second half.
          const uint32 mine = (Alignment::half_word_of(lane) / 4 == Shape::half_of(matrix, group)) ? 0xffffffffu : 0u;
          x &= mine;
          y &= mine;
        }
#pragma unroll
        for (int step = 0; step < 2; ++step) {
#pragma unroll
          for (int tile = 0; tile < kHeadTiles; ++tile) {
            mma_m16n8k16<Half>(output.blocks[tile][2 * matrix + step], x & kEven, both(x, step), y & kEven,
                               both(y, step), b[tile][0], b[tile][1]);
          }
          x = upper_bytes(x);
          y = upper_bytes(y);
        }
      }
    }
  }

  template <class TileScales>
  static __device__ __forceinline__ void load_value_scales(ValueScales& scales, uint32 stage, const TileScales&) {
    if constexpr (kManyTiles) {
      Loads::load_transposed_scales(scales.pairs, stage);
    } else {
      Loads::load_headers(scales.pairs, stage, kTileRows);  // access: loads of value scales
    }
    uint32 peaks = 0;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        peaks = Pair<Half>::larger_magnitudes(peaks, scales.pairs[row][group]);
      }
    }
    scales.peak = Pair<Half>::low(peaks);
    if constexpr (kManyTiles) scales.peak = maximum(scales.peak, Pair<Half>::high(peaks));
  }

  /// Passes the sums of weights to the softmax after the main loop, if kSumsWeights.
  template <class Softmax>
  static __device__ __forceinline__ void add_weights(Softmax& softmax, const Accumulator& output) {
    output.shifts.add_weights(softmax);
  }

  static __device__ __forceinline__ void rescale(Accumulator& output, const float (&factors)[kHeadTiles][2]) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int block = 0; block < 2 * kMatrices; ++block) output.blocks[tile][block][i] *= factors[tile][i & 1];
        if constexpr (!kManyTiles) output.shifts.rescale_element(i, factors[tile][i & 1]);
      }
      if constexpr (kManyTiles) output.shifts.rescale_heads(tile, factors[tile]);
    }
  }

  /// Stores dst[head * pitch + channel] for heads below kHeads. The pitch must be a multiple of 4 and dst 16-byte
  /// aligned.
  static __device__ __forceinline__ void store(const Accumulator& output, float* dst, int pitch) {
    const int lane = lane_index<kRecomputesLanes>();
    constexpr float even = Shape::kSubnormal;
    constexpr float odd = even / 16.f;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float shifts[kMatrices];
#pragma unroll
        for (int matrix = 0; matrix < kMatrices; ++matrix) {
          const int group = Alignment::channel_of(lane, matrix) / Shape::kGroupChannels;
          shifts[matrix] = output.shifts.of(tile, i, group);
        }
        const int head = lanes::accumulator_head(lane, tile, i);
        if (head >= kHeads) continue;
#pragma unroll
        for (int matrix = 0; matrix < kMatrices; ++matrix) {
          const float(&a)[4] = output.blocks[tile][2 * matrix];
          const float(&b)[4] = output.blocks[tile][2 * matrix + 1];
          const float shift = shifts[matrix];
          const float4 four = make_float4(a[i] * even + shift, (a[i + 2] - a[i]) * odd + shift, b[i] * even + shift,
                                          (b[i + 2] - b[i]) * odd + shift);
          const int at = head * pitch + Alignment::channel_of(lane, matrix);
          store_shared(shared_address(dst) + 4 * at, four);  // access: stores of warps' outputs
        }
      }
    }
  }

 private:
  /// Pairs (n0 + 16 · n1) of a word's lower bytes (step 0), or of the word that upper_bytes has shifted (step 1).
  static __device__ __forceinline__ uint32 both(uint32 word, int step) { return step == 0 ? word & kBoth : word; }
  static __device__ __forceinline__ uint32 upper_bytes(uint32 word) { return __byte_perm(word, 0, 0x4341); }
};

}  // namespace cubit
