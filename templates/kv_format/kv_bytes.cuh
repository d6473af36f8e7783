// KV number formats of one byte per channel (int8, e4m3, e5m2), with scales in separate tensors: value = scale · byte.
//
// Bytes become fp16 operands without rounding, two at a time. A signed byte n plus 128 becomes the low byte of an fp16
// with the value 1024 + 128 + n, and a subtraction of 1152 leaves n. fp8_halves.cuh converts fp8 bytes; tensor cores
// multiply the fp16 subnormals exactly that may arise.
//
// A matrix of ldmatrix is 8 rows × 16 bytes: 16 channels, which form a step. With r = lane / 4 and c = lane % 4, lane
// (r, c) receives channels 4c … 4c+3 of row r, or after transposition channels 2r and 2r+1 of tokens 2c and 2c+1. The
// mma of a key step therefore has channels 4c and 4c+1 at k = 2c and 2c+1, and channels 4c+2 and 4c+3 at k = 2c+8 and
// 2c+9. Q's registers follow the same order.
//
//   Scores:   per group  S += scale · (K · Qᵀ)
//   Outputs:  per group  Oᵀ += Vᵀ · (P · scale)ᵀ
//
// A scale that is common to all keys is part of Q's factor; a scale that is common to all values multiplies the
// outputs.
//
// Scales of a tile: see kv_scales.cuh. Interface of a number format: see gqa_decode_block.cuh.
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "attention/online_softmax.cuh"
#include "attention/query_operands.cuh"
#include "attention/query_scale.cuh"
#include "core/copies.cuh"
#include "core/fp8_halves.cuh"
#include "core/mma.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "kv_format/kv_scales.cuh"
#include "kv_format/scale.cuh"

namespace cubit {

/// Conversion of bytes to operands. Interface: prepared(word) is called once per word; halves<a, b>(word) returns bytes
/// a and b of a prepared word as a pair of fp16 values that are kSmaller times smaller.
struct Int8Operand {
  static constexpr float kSmaller = 1.f;
  /// Adds 128 to each byte.
  static __device__ __forceinline__ uint32 prepared(uint32 word) { return word ^ 0x80808080u; }
  template <int kLow, int kHigh>
  static __device__ __forceinline__ uint32 halves(uint32 word) {
    // The bytes become 1024 + 128 + n in fp16, and 1152 is subtracted.
    return Pair<Half>::difference(__byte_perm(word, 0x64646464u, 0x4040 + (kHigh << 8) + kLow), 0x64806480u);
  }
};

struct E5m2Operand {
  static constexpr float kSmaller = 1.f;
  static __device__ __forceinline__ uint32 prepared(uint32 word) { return word; }
  template <int kLow, int kHigh>
  static __device__ __forceinline__ uint32 halves(uint32 word) {
    return halves_of_e5m2<kLow, kHigh>(word);
  }
};

struct E4m3Operand {
  static constexpr float kSmaller = 256.f;
  static __device__ __forceinline__ uint32 prepared(uint32 word) { return word; }
  template <int kLow, int kHigh>
  static __device__ __forceinline__ uint32 halves(uint32 word) {
    return smaller_halves_of_e4m3<kLow, kHigh>(word);
  }
};

struct ConvertedE4m3Operand {
  static constexpr float kSmaller = 1.f;
  static __device__ __forceinline__ uint32 prepared(uint32 word) { return word; }
  template <int kLow, int kHigh>
  static __device__ __forceinline__ uint32 halves(uint32 word) {
    return converted_halves_of_e4m3<kLow, kHigh>(word);
  }
};

/// kGroups is the number of scales per row; 0 means one scale for all rows. kQueryIsShared applies to keys, see
/// query_operands.cuh.
template <class QueryElement, class Operand, class StoredScale, int kHeadDim, int kGroups, int kHeads, int kAlignment,
          int (*kAddress)(int, int), bool kQueryIsShared = false>
struct RowsOfBytes {
  static constexpr int kTileRows = lanes::kTileRows;
  static constexpr int kHeadTiles = (kHeads + 7) / 8;
  static constexpr int kTilesPerStep = 1;
  using Layout = TokensByHeads<kHeadTiles>;
  static constexpr int kSteps = kHeadDim / 16;
  static constexpr int kHeaderBytes = 0;
  static constexpr int kRowBytes = kHeadDim;
  static constexpr bool kScalesRows = kGroups > 0;
  static constexpr int kRowScales = kScalesRows ? kGroups : 1;
  static constexpr int kGroupSteps = kSteps / kRowScales;
  static_assert(kHeadDim % 16 == 0 && kSteps % kRowScales == 0);
  using StoredScales = Scale<StoredScale>;
  using Scales = RowScales<StoredScale, kScalesRows ? kGroups : 0>;

  // Words of a lane's query operands: two words for each step, then two factors, which are floats.
  static constexpr int kFactorsAt = 2 * kSteps;
  static constexpr int kQueryWords = padded_query_words(kFactorsAt + 2);
  using Query = typename ChooseQuery<kQueryIsShared, kHeadTiles, kQueryWords>::Type;
  static constexpr float kSharedQueryFactor = 1.f;
  /// Makes the operands of a single head tile.
  using OneTile = RowsOfBytes<QueryElement, Operand, StoredScale, kHeadDim, kGroups, 8, kAlignment, kAddress>;

  struct Accumulator {
    // Step s holds channels 16s + 2r (elements 0 and 1) and 16s + 2r + 1 (elements 2 and 3).
    float blocks[kHeadTiles][kSteps][4] = {};
  };

  static constexpr bool kWeightsAreScaled = kScalesRows;
  static constexpr bool kAnyFactor = kScalesRows;
  static constexpr bool kSumsWeights = false;

  /// Scales of a tile's values for rows r and r + 8, which are the tokens of the lane's weights, and the largest
  /// magnitude of these scales.
  struct ValueScales {
    float rows[2][kRowScales];
    float peak = 0.f;
  };

  static constexpr __device__ __forceinline__ int stage_byte(int row_byte) { return row_byte; }
  static __device__ __forceinline__ void clear_padding(uint32, int) {}

  static __device__ __forceinline__ float key_factor(const GqaDecodeArguments& args) {
    return kScalesRows ? 1.f : StoredScales::load(args.key_scales);
  }
  static __device__ __forceinline__ void scale_outputs(Accumulator& output, const GqaDecodeArguments& args) {
    if constexpr (!kScalesRows) {
      const float scale = StoredScales::load(args.value_scales);
      float factors[kHeadTiles][2];
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) factors[tile][0] = factors[tile][1] = scale;
      rescale(output, factors);
    }
  }

  /// Queries as loaded. Lane (r, c) has head 8 · tile + r; words[tile][step] are the head's channels
  /// 16 · step + 4c … 16 · step + 4c + 3.
  struct RawQuery {
    uint32 words[kHeadTiles][kSteps][2];
  };

  /// `rows` gives the block's `heads` heads, at most kHeads.
  template <class Rows>
  static __device__ __forceinline__ void fetch_query(RawQuery& raw, Rows rows, int heads) {
    const int lane = lane_index();
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      // A head beyond the last one duplicates the last head, and its results are not stored.
      const int head = min(8 * tile + lane / 4, heads - 1);
      const char* const row = settled(rows.row(head) + 8 * (lane % 4));
#pragma unroll
      for (int step = 0; step < kSteps; ++step) load_global<2, kAlignment>(raw.words[tile][step], row + 32 * step);
    }
  }

  /// `factor` is the softmax scale in base 2, multiplied by the common factor of all keys.
  static __device__ __forceinline__ void load_query(Query& query, const RawQuery& raw, float factor) {
    using Source = Pair<QueryElement>;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      uint32 words[kQueryWords] = {};
      uint32 peaks = 0;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) peaks = Source::larger_magnitudes(peaks, raw.words[tile][step][i]);
      }
      const int exponent = query_exponent(peak_of_head(maximum(Source::low(peaks), Source::high(peaks))));
      const float scale = power_of_two(exponent);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32 pair = raw.words[tile][step][i];
          words[2 * step + i] = Pair<Half>::pack(Source::low(pair) * scale, Source::high(pair) * scale);
        }
      }
      float factors[2];
      spread_to_score_lanes(factors, factor * Operand::kSmaller * power_of_two(-exponent));
#pragma unroll
      for (int i = 0; i < 2; ++i) words[kFactorsAt + i] = __float_as_uint(factors[i]);
      query.set(tile, words);
    }
  }

  template <class TileScales>
  static __device__ __forceinline__ void scores(const Query& query, uint32 stage, const TileScales& scales,
                                                float (&scores)[kHeadTiles][4]) {
    float products[kHeadTiles][4];
#pragma unroll
    for (int first = 0; first < kSteps; first += 2) {
      uint32 words[4];  // rows 0-7 and 8-15 of a step, then of the next step
      if (first + 1 < kSteps) {
        const uint32 row = stage + address(lanes::byte_words(lane_index(), first / 2, 0));
        load_matrices(words, row);  // access: ldmatrix.x4 of keys
      } else {
        uint32 last[2];
        const uint32 row = stage + address(lanes::byte_last_words(lane_index(), first, 0));
        load_matrices(last, row);  // access: ldmatrix.x2 of the last keys
        words[0] = last[0];
        words[1] = last[1];
      }
      uint32 a[2][4];
      float rows[2][2];  // rows r and r + 8: scales of the groups that end with a step
#pragma unroll
      for (int i = 0; i < 2 && first + i < kSteps; ++i) {
        if ((first + i + 1) % kGroupSteps == 0) load_key_scales(rows[i], scales, (first + i) / kGroupSteps);
        const uint32 low = Operand::prepared(words[2 * i]);
        const uint32 high = Operand::prepared(words[2 * i + 1]);
        a[i][0] = Operand::template halves<0, 1>(low);
        a[i][1] = Operand::template halves<0, 1>(high);
        a[i][2] = Operand::template halves<2, 3>(low);
        a[i][3] = Operand::template halves<2, 3>(high);
      }
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
        uint32 b[4];
        query.get(b, tile, 2 * first);
#pragma unroll
        for (int i = 0; i < 2 && first + i < kSteps; ++i) {
          const int step = first + i;
          if (step % kGroupSteps == 0)
            products[tile][0] = products[tile][1] = products[tile][2] = products[tile][3] = 0.f;
          mma_m16n8k16<Half>(products[tile], a[i][0], a[i][1], a[i][2], a[i][3], b[2 * i], b[2 * i + 1]);
          if ((step + 1) % kGroupSteps == 0) add_scaled(scores[tile], products[tile], rows[i], step / kGroupSteps);
        }
      }
    }
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      uint32 four[4];
      query.get(four, tile, kFactorsAt / 4 * 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] *= __uint_as_float(four[kFactorsAt % 4 + (i & 1)]);
    }
  }

  template <class TileScales>
  static __device__ __forceinline__ void load_value_scales(ValueScales& scales, uint32, const TileScales& tile) {
    if constexpr (kScalesRows) {
      const int row = lane_index() / 4;
      scales.peak = 0.f;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int group = 0; group < kRowScales; ++group) {
          scales.rows[half][group] = tile.of_value(row + 8 * half, group);
          scales.peak = maximum(scales.peak, fabsf(scales.rows[half][group]));
        }
      }
    }
  }

  template <class Softmax>
  static __device__ __forceinline__ void accumulate(Accumulator& output, Softmax& softmax, uint32 stage,
                                                    const ValueScales& scales, const float (&weights)[kHeadTiles][4]) {
    uint32 b[kHeadTiles][2];
    if constexpr (!kScalesRows) round_weights(b, softmax, weights);
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      if constexpr (kScalesRows)
        softmax.add(tile, weights[tile][0], weights[tile][1], weights[tile][2], weights[tile][3]);
    }
#pragma unroll
    for (int first = 0; first < kSteps; first += 2) {
      uint32 words[4];  // tokens 0-7 and 8-15 of a step, then of the next step
      if (first + 1 < kSteps) {
        const uint32 row = stage + address(lanes::byte_words(lane_index(), first / 2, kTileRows));
        load_matrices_transposed(words, row);  // access: ldmatrix.x4.trans of values
      } else {
        uint32 last[2];
        const uint32 row = stage + address(lanes::byte_last_words(lane_index(), first, kTileRows));
        load_matrices_transposed(last, row);  // access: ldmatrix.x2.trans of the last values
        words[0] = last[0];
        words[1] = last[1];
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int step = first + i;
        if (step >= kSteps) break;
        if constexpr (kScalesRows) {
          if (step % kGroupSteps == 0) scale_weights(b, weights, scales, step / kGroupSteps);
        }
        const uint32 low = Operand::prepared(words[2 * i]);
        const uint32 high = Operand::prepared(words[2 * i + 1]);
        const uint32 a[4] = {Operand::template halves<0, 2>(low), Operand::template halves<1, 3>(low),
                             Operand::template halves<0, 2>(high), Operand::template halves<1, 3>(high)};
#pragma unroll
        for (int tile = 0; tile < kHeadTiles; ++tile)
          mma_m16n8k16<Half>(output.blocks[tile][step], a[0], a[1], a[2], a[3], b[tile][0], b[tile][1]);
      }
    }
  }

  static __device__ __forceinline__ void rescale(Accumulator& output, const float (&factors)[kHeadTiles][2]) {
    rescale_columns(output.blocks, factors);
  }

  /// Stores dst[head * pitch + channel] for heads below kHeads. The pitch must be even and dst 8-byte aligned.
  static __device__ __forceinline__ void store(const Accumulator& output, float* dst, int pitch) {
    const int lane = lane_index();
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int head = lanes::accumulator_head(lane, tile, i);
        if (head >= kHeads) continue;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          const float(&block)[4] = output.blocks[tile][step];
          const float2 two = make_float2(block[i] * Operand::kSmaller, block[i + 2] * Operand::kSmaller);
          const uint32 at = shared_address(dst) + 4 * (head * pitch + lanes::byte_channel(lane, step));
          store_shared(at, two);  // access: stores of warps' outputs
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ int address(lanes::Place place) { return kAddress(place.row, place.byte); }

  template <class TileScales>
  static __device__ __forceinline__ void load_key_scales(float (&rows)[2], const TileScales& scales, int group) {
    rows[0] = rows[1] = 1.f;
    if constexpr (kScalesRows) {
#pragma unroll
      for (int half = 0; half < 2; ++half) rows[half] = scales.of_key(lane_index() / 4 + 8 * half, group);
    }
  }

  static __device__ __forceinline__ void add_scaled(float (&scores)[4], const float (&products)[4],
                                                    const float (&rows)[2], int group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float product = rows[i / 2] * products[i];
      scores[i] = group == 0 ? product : scores[i] + product;
    }
  }

  /// Rounds the weights to the fp16 values that the products use, and adds these rounded weights to the softmax sums.
  template <class Softmax>
  static __device__ __forceinline__ void round_weights(uint32 (&b)[kHeadTiles][2], Softmax& softmax,
                                                       const float (&weights)[kHeadTiles][4]) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      const uint32 low = Pair<Half>::pack(weights[tile][0], weights[tile][1]);
      const uint32 high = Pair<Half>::pack(weights[tile][2], weights[tile][3]);
      softmax.add(tile, Pair<Half>::low(low), Pair<Half>::high(low), Pair<Half>::low(high), Pair<Half>::high(high));
      b[tile][0] = transpose_8x8(low);
      b[tile][1] = transpose_8x8(high);
    }
  }

  static __device__ __forceinline__ void scale_weights(uint32 (&b)[kHeadTiles][2],
                                                       const float (&weights)[kHeadTiles][4], const ValueScales& scales,
                                                       int group) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float scale = scales.rows[half][group];
        b[tile][half] =
            transpose_8x8(Pair<Half>::pack(weights[tile][2 * half] * scale, weights[tile][2 * half + 1] * scale));
      }
    }
  }
};

}  // namespace cubit
