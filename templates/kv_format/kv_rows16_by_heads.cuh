// KV number format of rows with head_dim fp16 or bf16 values, for warpgroup MMA with heads as M.
//
//   Scores:   S (heads × tokens) = Q (A operand, registers) · Kᵀ (B operand, the stage)
//   Outputs:  O (heads × channels) = P (A operand, S as it is) · V (B operand, the stage, transposed)
//
// The four warps of a warpgroup process the same K/V rows, namely all rows of a stage that belong to the warpgroup, and
// each warp has up to 16 heads of its own. The 64 rows of a wgmma are 16 rows of each warp; rows without a head have
// zeros as Q. All four warps call scores() and accumulate() together.
//
// K/V rows lie in shared memory in the 128-byte swizzle of wgmma.cuh. A row is cut into parts of 128 bytes (64
// channels): the stage has part 0 of all rows, then part 1 of all rows, and so on. Stages that were not filled by TMA
// need a fence_async_proxy() before scores(). Interface of a number format: see gqa_decode_block.cuh.
//
// PTX ISA: "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "attention/online_softmax.cuh"
#include "attention/query_rows16.cuh"
#include "attention/score_layout.cuh"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "core/wgmma.cuh"
#include "kv_format/kv_scales.cuh"

namespace cubit {

/// kHeads is the number of heads of each warp, at most 16; kTokens is the number of a warpgroup's tokens in a stage.
/// kAddress(row, byte) is the offset of a byte in a stage, with keys from row 0 and values from row 16 on.
template <class QueryElement, class Element, int kHeadDim, int kHeads, int kTokens, int (*kAddress)(int, int)>
struct Rows16ByHeads : WithoutScales {
  static constexpr int kRowBytes = 2 * kHeadDim;
  static constexpr int kTilesPerStep = kTokens / 16;
  static constexpr int kHeadsOfLane = (kHeads + 7) / 8;
  using Layout = HeadsByTokens<kTokens / 8, kHeadsOfLane>;
  static constexpr int kSteps = kHeadDim / 16;
  static constexpr int kParts = kRowBytes / 128;
  static_assert(kRowBytes % 128 == 0);
  using RawQuery = QueryForRows16<QueryElement, Element, kHeadsOfLane, kSteps>;
  static constexpr int kTerms = RawQuery::kTerms;
  // Two terms for bf16 weights, for the reason given in kv_rows16.cuh.
  static constexpr int kWeightTerms = kSameType<Element, Bfloat16> ? 2 : 1;

  /// words[term][step] is an A operand of 16 channels; factors[i] is the score factor of head r + 8i, with
  /// r = lane / 4.
  struct Query {
    uint32 words[kTerms][kSteps][4];
    float factors[kHeadsOfLane];
  };

  struct Accumulator {
    // Block [part][eight] has channels 64 · part + 8 · eight + 2c and the next channel, with c = lane % 4, of heads r
    // (elements 0 and 1) and r + 8 (elements 2 and 3).
    float blocks[kParts][8][4] = {};
  };

  static constexpr bool kWeightsAreScaled = false;
  struct ValueScales {
    static constexpr float peak = 0.f;
  };

  /// `rows` gives the warp's `heads` heads, at most kHeads.
  template <class Rows>
  static __device__ __forceinline__ void fetch_query(RawQuery& raw, Rows rows, int heads) {
    raw.fetch(rows, heads);
  }

  /// `factor` is the softmax scale in base 2.
  static __device__ __forceinline__ void load_query(Query& query, const RawQuery& raw, float factor) {
    if constexpr (kHeadsOfLane == 1) clear_second_heads(query);
#pragma unroll
    for (int i = 0; i < kHeadsOfLane; ++i) {
      const int exponent = raw.exponent(i);
      query.factors[i] = factor * power_of_two(-exponent);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32 terms[kTerms];
          RawQuery::pack(terms, raw.words[i][step][half], power_of_two(exponent));
#pragma unroll
          for (int term = 0; term < kTerms; ++term) query.words[term][step][2 * half + i] = terms[term];
        }
      }
    }
  }

  template <class TileScales>
  static __device__ __forceinline__ void scores(const Query& query, uint32 stage, const TileScales&,
                                                float (&scores)[Layout::kTiles][4]) {
    fence_products();
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const uint64 keys = describe_rows_of_128(stage + kAddress(0, 128 * part));
#pragma unroll
      for (int step = 0; step < 4; ++step) {
#pragma unroll
        for (int term = 0; term < kTerms; ++term) {
          const uint32 accumulate = part + step + term > 0 ? 1 : 0;
          start_product<Element>(scores, query.words[term][4 * part + step], keys + 32 * step / 16, accumulate);
        }
      }
    }
    commit_products();
    wait_products<0>();
    settle_sums(scores);
#pragma unroll
    for (int tile = 0; tile < Layout::kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 2 * kHeadsOfLane; ++i) scores[tile][i] *= query.factors[Layout::head(i)];
    }
  }

  template <class Softmax>
  static __device__ __forceinline__ void accumulate(Accumulator& output, Softmax& softmax, uint32 stage,
                                                    const ValueScales&, const float (&weights)[Layout::kTiles][4]) {
    uint32 a[kTilesPerStep][kWeightTerms][4] = {};
#pragma unroll
    for (int tile = 0; tile < Layout::kTiles; ++tile) {
      float used[4] = {};
#pragma unroll
      for (int i = 0; i < kHeadsOfLane; ++i) {
        float rest[2] = {weights[tile][2 * i], weights[tile][2 * i + 1]};
#pragma unroll
        for (int term = 0; term < kWeightTerms; ++term) {
          const uint32 pair = Pair<Element>::pack(rest[0], rest[1]);
          a[tile / 2][term][tile % 2 * 2 + i] = pair;
          const float rounded[2] = {Pair<Element>::low(pair), Pair<Element>::high(pair)};
#pragma unroll
          for (int token = 0; token < 2; ++token) {
            used[2 * i + token] += rounded[token];
            rest[token] -= rounded[token];
          }
        }
      }
      softmax.add(tile, used[0], used[1], used[2], used[3]);
    }
    fence_products();
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const uint64 values = describe_rows_of_128(stage + kAddress(lanes::kTileRows, 128 * part));
#pragma unroll
      for (int step = 0; step < kTilesPerStep; ++step) {
#pragma unroll
        for (int term = 0; term < kWeightTerms; ++term)
          start_product<Element, true>(output.blocks[part], a[step][term], values + 128 * 16 * step / 16, 1);
      }
    }
    commit_products();
    wait_products<0>();
#pragma unroll
    for (int part = 0; part < kParts; ++part) settle_sums(output.blocks[part]);
  }

  template <class TileScales>
  static __device__ __forceinline__ void load_value_scales(ValueScales&, uint32, const TileScales&) {}

  static __device__ __forceinline__ void rescale(Accumulator& output, const float (&factors)[1][2]) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int eight = 0; eight < 8; ++eight) {
#pragma unroll
        for (int i = 0; i < 2 * kHeadsOfLane; ++i) output.blocks[part][eight][i] *= factors[0][Layout::head(i)];
      }
    }
  }

  /// Stores dst[head * pitch + channel] for heads below kHeads.
  static __device__ __forceinline__ void store(const Accumulator& output, float* dst, int pitch) {
    const int lane = lane_index();
#pragma unroll
    for (int i = 0; i < kHeadsOfLane; ++i) {
      const int head = lanes::row_head(lane, i);
      if (head >= kHeads) continue;
#pragma unroll
      for (int eight = 0; eight < kHeadDim / 8; ++eight) {
        const float(&sums)[4] = output.blocks[eight / 8][eight % 8];
        const float2 two = make_float2(sums[2 * i], sums[2 * i + 1]);
        const uint32 at = shared_address(dst) + 4 * (head * pitch + lanes::row_channel(lane, eight));
        store_shared(at, two);  // access: stores of warps' outputs
      }
    }
  }

 private:
  static __device__ __forceinline__ void clear_second_heads(Query& query) {
#pragma unroll
    for (int term = 0; term < kTerms; ++term) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) query.words[term][step][1] = query.words[term][step][3] = 0;
    }
  }
};

}  // namespace cubit
