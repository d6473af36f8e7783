// KV number format of rows with head_dim fp16 or bf16 values.
//
//   Scores:   S (tokens × heads) = K (A operand, ldmatrix) · Qᵀ (B operand, registers)
//   Outputs:  Oᵀ (channels × heads) = Vᵀ (A operand, ldmatrix.trans) · Pᵀ (B operand, P transposed in registers)
//
// Interface of a number format: see gqa_decode_block.cuh.
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "attention/online_softmax.cuh"
#include "attention/query_operands.cuh"
#include "attention/query_rows16.cuh"
#include "attention/query_scale.cuh"
#include "core/copies.cuh"
#include "core/mma.cuh"
#include "core/types.cuh"
#include "kv_format/kv_scales.cuh"

namespace cubit {

/// kAddress(row, byte) is the offset of a byte in a stage. kQueryIsShared applies to keys, see query_operands.cuh.
template <class QueryElement, class Element, int kHeadDim, int kHeads, int (*kAddress)(int, int),
          bool kQueryIsShared = false>
struct Rows16 : WithoutScales {
  static constexpr int kHeadTiles = (kHeads + 7) / 8;
  static constexpr int kTilesPerStep = 1;
  using Layout = TokensByHeads<kHeadTiles>;
  static constexpr int kSteps = kHeadDim / 16;
  static constexpr int kHeaderBytes = 0;
  static constexpr int kRowBytes = 2 * kHeadDim;
  using RawQuery = QueryForRows16<QueryElement, Element, kHeadTiles, kSteps>;
  static constexpr int kTerms = RawQuery::kTerms;
  // A bf16 weight alone has an error of 2^-9, so the rest that rounding leaves becomes a second term.
  static constexpr int kWeightTerms = kSameType<Element, Bfloat16> ? 2 : 1;

  // Words of a lane's query operands: two words of each term for each step, then two factors, which are floats.
  static constexpr int kTermWords = padded_query_words(2 * kSteps);
  static constexpr int kFactorsAt = kTerms * kTermWords;
  static constexpr int kQueryWords = padded_query_words(kFactorsAt + 2);
  using Query = typename ChooseQuery<kQueryIsShared, kHeadTiles, kQueryWords>::Type;
  static constexpr float kSharedQueryFactor = 1.f;
  /// Makes the operands of a single head tile.
  using OneTile = Rows16<QueryElement, Element, kHeadDim, 8, kAddress>;

  struct Accumulator {
    // With r = lane / 4 and c = lane % 4: heads 2c and 2c + 1 of channels 16 · step + r (elements 0 and 1) and
    // 16 · step + r + 8 (elements 2 and 3).
    float blocks[kHeadTiles][kSteps][4] = {};
  };

  static constexpr bool kWeightsAreScaled = false;
  struct ValueScales {
    static constexpr float peak = 0.f;
  };

  static constexpr __device__ __forceinline__ int stage_byte(int row_byte) { return row_byte; }
  static __device__ __forceinline__ void clear_padding(uint32, int) {}

  /// `rows` gives the block's `heads` heads, at most kHeads.
  template <class Rows>
  static __device__ __forceinline__ void fetch_query(RawQuery& raw, Rows rows, int heads) {
    raw.fetch(rows, heads);
  }

  /// `factor` is the softmax scale in base 2.
  static __device__ __forceinline__ void load_query(Query& query, const RawQuery& raw, float factor) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      uint32 words[kQueryWords] = {};
      const int exponent = raw.exponent(tile);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32 terms[kTerms];
          RawQuery::pack(terms, raw.words[tile][step][half], power_of_two(exponent));
#pragma unroll
          for (int term = 0; term < kTerms; ++term) words[term * kTermWords + 2 * step + half] = terms[term];
        }
      }
      float factors[2];
      spread_to_score_lanes(factors, factor * power_of_two(-exponent));
#pragma unroll
      for (int i = 0; i < 2; ++i) words[kFactorsAt + i] = __float_as_uint(factors[i]);
      query.set(tile, words);
    }
  }

  template <class TileScales>
  static __device__ __forceinline__ void scores(const Query& query, uint32 stage, const TileScales&,
                                                float (&scores)[kHeadTiles][4]) {
    const int lane = lane_index();
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] = 0.f;
    }
#pragma unroll
    for (int first = 0; first < kSteps; first += 2) {
      uint32 a[2][4];
#pragma unroll
      for (int i = 0; i < 2 && first + i < kSteps; ++i) {
        // The matrices are rows 0-7 and 8-15 of columns 0-7, then of columns 8-15; this is the order a0 … a3.
        const uint32 row = stage + address(lanes::rows16_keys(lane, first + i));
        load_matrices(a[i], row);  // access: ldmatrix.x4 of keys
      }
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
        for (int term = 0; term < kTerms; ++term) {
          uint32 b[4];
          query.get(b, tile, term * kTermWords + 2 * first);
#pragma unroll
          for (int i = 0; i < 2 && first + i < kSteps; ++i)
            mma_m16n8k16<Element>(scores[tile], a[i][0], a[i][1], a[i][2], a[i][3], b[2 * i], b[2 * i + 1]);
        }
      }
    }
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      uint32 factors[4];
      query.get(factors, tile, kFactorsAt);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] *= __uint_as_float(factors[i & 1]);
    }
  }

  template <class Softmax>
  static __device__ __forceinline__ void accumulate(Accumulator& output, Softmax& softmax, uint32 stage,
                                                    const ValueScales&, const float (&weights)[kHeadTiles][4]) {
    const int lane = lane_index();
    uint32 b[kHeadTiles][kWeightTerms][2];
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      float rest[4];
      float used[4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) rest[i] = weights[tile][i];
#pragma unroll
      for (int term = 0; term < kWeightTerms; ++term) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const uint32 pair = Pair<Element>::pack(rest[2 * row], rest[2 * row + 1]);
          b[tile][term][row] = transpose_8x8(pair);
          const float rounded[2] = {Pair<Element>::low(pair), Pair<Element>::high(pair)};
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            used[2 * row + i] += rounded[i];
            rest[2 * row + i] -= rounded[i];
          }
        }
      }
      softmax.add(tile, used[0], used[1], used[2], used[3]);
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      // The matrices of V are tokens 0-7 × channels 0-7 and 8-15, then tokens 8-15; transposed, they are a0 … a3.
      uint32 a[4];
      const uint32 row = stage + address(lanes::rows16_values(lane, step));
      load_matrices_transposed(a, row);  // access: ldmatrix.x4.trans of values
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
        for (int term = 0; term < kWeightTerms; ++term) {
          const uint32(&w)[2] = b[tile][term];
          mma_m16n8k16<Element>(output.blocks[tile][step], a[0], a[1], a[2], a[3], w[0], w[1]);
        }
      }
    }
  }

  template <class TileScales>
  static __device__ __forceinline__ void load_value_scales(ValueScales&, uint32, const TileScales&) {}

  static __device__ __forceinline__ void rescale(Accumulator& output, const float (&factors)[kHeadTiles][2]) {
    rescale_columns(output.blocks, factors);
  }

  /// Stores dst[head * pitch + channel] for heads below kHeads.
  static __device__ __forceinline__ void store(const Accumulator& output, float* dst, int pitch) {
    const int lane = lane_index();
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int head = lanes::accumulator_head(lane, tile, i);
        if (head >= kHeads) continue;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          const int channel = lanes::rows16_channel(lane, step, i);
          dst[head * pitch + channel] = output.blocks[tile][step][i];  // access: stores of warps' outputs
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ int address(lanes::Place place) { return kAddress(place.row, place.byte); }
};

}  // namespace cubit
