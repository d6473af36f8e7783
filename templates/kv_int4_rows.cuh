// Number format: int4_rows, a header of kGroups (scale, shift) pairs of fp16, then head_dim nibbles, low nibble first.
// value = scale · nibble + shift.
//
// Nothing is dequantised. `word & 0x000f000f` is a pair of fp16 subnormals n · 2^-24, `word & 0x00f000f0` the same
// times 16, and tensor cores multiply subnormals exactly. The order of channels along k that this gives is matched by
// Q's registers; 2^24 is undone on accumulators, 16 on Q or on the stored output.
//
// A stage's row:  | header, padded with zeros to 16 bytes | head_dim / 2 bytes of words |
// A matrix of ldmatrix is 8 rows × 16 bytes = 32 channels; lane (r, c) gets word c of row r: channels 8c … 8c+7.
//
// Scores:   per group  S += scale · (K words · Qᵀ),  and once per tile  S += headers · (0, group sum of Q) pairs
// Outputs:  per group  Oᵀ += (V words)ᵀ · (P · scale)ᵀ,  and once per tile  shifts += headersᵀ · Pᵀ
//
// Interface of a number format: see sm80_gqa_decode.cuh.
#pragma once

#include "copies.cuh"
#include "gqa_decode_lanes.h"
#include "mma.cuh"
#include "online_softmax.cuh"
#include "query_scale.cuh"
#include "types.cuh"

namespace cubit {

template <class QueryElement, int kHeadDim, int kGroups, int kHeads, int kAlignment, int (*kAddress)(int, int)>
struct Int4Rows {
  static constexpr int kTileRows = lanes::kTileRows;
  static constexpr int kHeadTiles = (kHeads + 7) / 8;
  static constexpr int kMatrices = kHeadDim / 32;
  static constexpr int kGroupChannels = kHeadDim / kGroups;
  static_assert(kGroupChannels % 16 == 0 && kHeadDim % 64 == 0);
  /// Groups of 16 channels share a matrix: lanes c = 0, 1 hold the one, c = 2, 3 the other.
  static constexpr int kGroupsPerMatrix = kGroupChannels == 16 ? 2 : 1;
  static constexpr int kMatricesPerGroup = kGroupChannels == 16 ? 1 : kGroupChannels / 32;
  static constexpr int kHeaderBytes = 4 * kGroups;
  static constexpr int kHeaderChunks = (kHeaderBytes + 15) / 16;
  static constexpr int kWordsStart = 16 * kHeaderChunks;
  static constexpr int kRowBytes = kHeaderBytes + kHeadDim / 2;
  static constexpr uint32 kEven = 0x000f000fu;
  static constexpr uint32 kOdd = 0x00f000f0u;
  static constexpr float kSubnormal = 16777216.f;  // 2^24

  struct Query {
    uint32 words[kHeadTiles][kMatrices][4];  // B operands of the two products of each matrix
    // B operands of the shift term: pairs (0, sum of Q over group c + 4 · chunk), as high and low parts.
    uint32 sums[kHeadTiles][2][kHeaderChunks];
    float factor[kHeadTiles][2];
  };

  struct Accumulator {
    // Block 2i + h holds channels 32i + 4r + 2h (rows r) and + 1 (rows r + 8, times 16) of matrix i.
    float blocks[kHeadTiles][2 * kMatrices][4] = {};
    // Row 2g + 1 is the sum of weight · shift of group g.
    float shifts[kHeadTiles][4] = {};
    // Scales of V enter as scale / scale_limit, a power of two that grows: P · scale neither overflows nor vanishes.
    float scale_limit = 5.9604645e-8f;  // 2^-24, the smallest fp16
  };

  static constexpr __device__ __forceinline__ int stage_byte(int row_byte) {
    return row_byte < kHeaderBytes ? row_byte : row_byte + (kWordsStart - kHeaderBytes);
  }

  /// Zeroes what copies never write: the shift products read whole 16-byte headers.
  static __device__ __forceinline__ void clear_padding(uint32 stage) {
    constexpr int kPaddingWords = (kWordsStart - kHeaderBytes) / 4;
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    if (lane / 8 >= kPaddingWords) return;
#pragma unroll
    for (int row = 0; row < 2 * kTileRows; row += 8) {
      const uint32 at = stage + address(lanes::int4_padding(lane, row, kHeaderBytes));
      store_shared_word(at, 0);  // access: zeros beside headers
    }
  }

  static __device__ __forceinline__ void load_query(Query& query, const char* src, int64 head_stride, float factor) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int c = lane % 4;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      const int head = 8 * tile + lane / 4;
      float channels[kMatrices][8];
      float peak = 0.f;
#pragma unroll
      for (int matrix = 0; matrix < kMatrices; ++matrix) {
        uint32 raw[4] = {0, 0, 0, 0};
        if (head < kHeads) load_global<4, kAlignment>(raw, src + head * head_stride + 64 * matrix + 16 * c);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          channels[matrix][2 * i] = Pair<QueryElement>::low(raw[i]);
          channels[matrix][2 * i + 1] = Pair<QueryElement>::high(raw[i]);
          peak = maximum(peak, maximum(fabsf(channels[matrix][2 * i]), fabsf(channels[matrix][2 * i + 1])));
        }
      }
      const int exponent = query_exponent(peak_of_head(peak));
      pack_query(query, tile, channels, power_of_two(exponent));
      spread_to_score_lanes(query.factor[tile], factor * kSubnormal * power_of_two(-exponent));
    }
  }

  static __device__ __forceinline__ void scores(const Query& query, uint32 stage, float (&scores)[kHeadTiles][4]) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    shift_scores(query, stage, scores);
    uint32 pairs[2][kGroups];       // (scale, shift) of rows r and r + 8
    load_headers(pairs, stage, 0);  // access: loads of key scales
    uint32 words[kMatrices][2];
    load_words<false>(words, stage, lane);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      // Of two groups that share a matrix, one takes the channels of lanes c = 0, 1, the other those of c = 2, 3.
      uint32 mine = 0xffffffffu;
      if constexpr (kGroupsPerMatrix == 2) mine = lane % 4 / 2 == group % 2 ? recomputed(-1) : 0u;
      float products[kHeadTiles][4] = {};
#pragma unroll
      for (int i = 0; i < kMatricesPerGroup; ++i) {
        const int matrix = kGroupsPerMatrix == 2 ? group / 2 : group * kMatricesPerGroup + i;
        uint32 low = words[matrix][0];
        uint32 high = words[matrix][1];
#pragma unroll
        for (int step = 0; step < 2; ++step) {
#pragma unroll
          for (int tile = 0; tile < kHeadTiles; ++tile) {
            const uint32 b0 = query.words[tile][matrix][2 * step] & mine;
            const uint32 b1 = query.words[tile][matrix][2 * step + 1] & mine;
            mma_m16n8k16<Half>(products[tile], low & kEven, high & kEven, low & kOdd, high & kOdd, b0, b1);
          }
          low >>= 8;
          high >>= 8;
        }
      }
      const float scale_low = Pair<Half>::low(pairs[0][group]);
      const float scale_high = Pair<Half>::low(pairs[1][group]);
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[tile][i] += (i < 2 ? scale_low : scale_high) * products[tile][i];
      }
    }
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] *= query.factor[tile][i & 1];
    }
  }

  static __device__ __forceinline__ void accumulate(Accumulator& output, OnlineSoftmax<kHeadTiles>& softmax,
                                                    uint32 stage, const float (&weights)[kHeadTiles][4]) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    uint32 pairs[2][kGroups];
    load_headers(pairs, stage, kTileRows);  // access: loads of value scales
    raise_scale_limit(output, pairs);
    uint32 words[kMatrices][2];
    load_words<true>(words, stage, lane);

    float rounded[kHeadTiles][4];
    shift_outputs(output, softmax, stage, weights, rounded);
    const float inverse_limit = 1.f / output.scale_limit;  // a power of two: exact
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) rounded[tile][i] *= inverse_limit;
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const float scale_low = Pair<Half>::low(pairs[0][group]);
      const float scale_high = Pair<Half>::low(pairs[1][group]);
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
        const float(&w)[4] = rounded[tile];
        const uint32 b0 = transpose_8x8(Pair<Half>::pack(w[0] * scale_low, w[1] * scale_low));
        const uint32 b1 = transpose_8x8(Pair<Half>::pack(w[2] * scale_high, w[3] * scale_high));
#pragma unroll
        for (int i = 0; i < kMatricesPerGroup; ++i) {
          const int matrix = kGroupsPerMatrix == 2 ? group / 2 : group * kMatricesPerGroup + i;
          uint32 x = words[matrix][0];
          uint32 y = words[matrix][1];
          if constexpr (kGroupsPerMatrix == 2) {
            // Transposed, lane / 4 counts 4-channel units: the first 4 are one group, the last 4 the other.
            const uint32 mine = (lane / 16 == group % 2) ? 0xffffffffu : 0u;
            x &= mine;
            y &= mine;
          }
#pragma unroll
          for (int step = 0; step < 2; ++step) {
            mma_m16n8k16<Half>(output.blocks[tile][2 * matrix + step], x & kEven, x & kOdd, y & kEven, y & kOdd, b0,
                               b1);
            x >>= 8;
            y >>= 8;
          }
        }
      }
    }
  }

  static __device__ __forceinline__ void rescale(Accumulator& output, const float (&factors)[kHeadTiles][2]) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int block = 0; block < 2 * kMatrices; ++block) output.blocks[tile][block][i] *= factors[tile][i & 1];
        output.shifts[tile][i] *= factors[tile][i & 1];
      }
    }
  }

  /// dst[head * pitch + channel] for heads below kHeads; pitch is a multiple of 4 and dst is 16-byte aligned.
  static __device__ __forceinline__ void store(const Accumulator& output, float* dst, int pitch) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const float even = kSubnormal * output.scale_limit;
    const float odd = even / 16.f;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int matrix = 0; matrix < kMatrices; ++matrix) {
        const int group = lanes::int4_channel(lane, matrix) / kGroupChannels;
        // Row 2 * group + 1 of the shift accumulator: rows below 8 in elements 0 and 1, the others in 2 and 3.
        const int source = (2 * group + 1) % 8 * 4 + lane % 4;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float first = __shfl_sync(kFullWarp, output.shifts[tile][i], source);
          const float second = kGroups > 4 ? __shfl_sync(kFullWarp, output.shifts[tile][i + 2], source) : 0.f;
          const float shift = group < 4 ? first : second;
          const int head = lanes::accumulator_head(lane, tile, i);
          if (head >= kHeads) continue;
          const float(&a)[4] = output.blocks[tile][2 * matrix];
          const float(&b)[4] = output.blocks[tile][2 * matrix + 1];
          const float4 four =
              make_float4(a[i] * even + shift, a[i + 2] * odd + shift, b[i] * even + shift, b[i + 2] * odd + shift);
          float* const at = dst + head * pitch + lanes::int4_channel(lane, matrix);
          *reinterpret_cast<float4*>(at) = four;  // access: stores of warps' outputs
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ int address(lanes::Place place) { return kAddress(place.row, place.byte); }

  static __device__ __forceinline__ void pack_query(Query& query, int tile, const float (&channels)[kMatrices][8],
                                                    float scale) {
    const int c = static_cast<int>(threadIdx.x) % 4;
    float sums[kGroups] = {};
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
      float q[8];
      float sum = 0.f;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        q[i] = channels[matrix][i] * scale;
        sum += q[i];
      }
      uint32(&words)[4] = query.words[tile][matrix];
      words[0] = Pair<Half>::pack(q[0], q[4]);
      words[1] = Pair<Half>::pack(q[1] / 16, q[5] / 16);
      words[2] = Pair<Half>::pack(q[2], q[6]);
      words[3] = Pair<Half>::pack(q[3] / 16, q[7] / 16);
#pragma unroll
      for (int group = 0; group < kGroupsPerMatrix; ++group) {
        const bool mine = kGroupsPerMatrix == 1 || c / 2 == group;
        sums[32 * matrix / kGroupChannels + group] += mine ? sum : 0.f;
      }
    }
#pragma unroll
    for (int chunk = 0; chunk < kHeaderChunks; ++chunk) {
      float mine = 0.f;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int group = 4 * chunk + i;
        if (group >= kGroups) continue;
        float sum = sums[group];
        sum += __shfl_xor_sync(kFullWarp, sum, 1);
        sum += __shfl_xor_sync(kFullWarp, sum, 2);
        if (c == i) mine = sum;
      }
      const uint32 high = Pair<Half>::pack(0.f, mine);
      query.sums[tile][0][chunk] = high;
      query.sums[tile][1][chunk] = Pair<Half>::pack(0.f, mine - Pair<Half>::high(high));
    }
  }

  /// words[matrix] = the word of rows 0-7 and of rows 8-15 in fragment order: of keys, or transposed of values.
  template <bool kTransposed>
  static __device__ __forceinline__ void load_words(uint32 (&words)[kMatrices][2], uint32 stage, int lane) {
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; matrix += 2) {
      uint32 loaded[4];
      const int first_row = kTransposed ? kTileRows : 0;
      const uint32 row = stage + address(lanes::int4_words(lane, matrix, kWordsStart, first_row));
      if constexpr (kTransposed) {
        load_matrices_transposed(loaded, row);  // access: ldmatrix.x4.trans of value words
      } else {
        load_matrices(loaded, row);  // access: ldmatrix.x4 of key words
      }
      words[matrix][0] = loaded[0];
      words[matrix][1] = loaded[1];
      words[matrix + 1][0] = loaded[2];
      words[matrix + 1][1] = loaded[3];
    }
  }

  static __device__ __forceinline__ void load_headers(uint32 (&pairs)[2][kGroups], uint32 stage, int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    constexpr int kPiece = kGroups < 4 ? kGroups : 4;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int first = 0; first < kGroups; first += kPiece) {
        uint32 piece[kPiece];
        load_shared(piece, stage + address(lanes::int4_header_pairs(lane, row, first, first_row)));
#pragma unroll
        for (int i = 0; i < kPiece; ++i) pairs[row][first + i] = piece[i];
      }
    }
  }

  /// Headers as a 16-bit matrix, 8 values of 16 rows per chunk: plain for K, transposed for V.
  template <bool kTransposed>
  static __device__ __forceinline__ void load_header_matrices(uint32 (&headers)[kHeaderChunks][2], uint32 stage) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int chunk = 0; chunk < kHeaderChunks; ++chunk) {
      const uint32 row = stage + address(lanes::int4_header_matrices(lane, chunk, kTransposed ? kTileRows : 0));
      if constexpr (kTransposed) {
        load_matrices_transposed(headers[chunk], row);  // access: ldmatrix.x2.trans of value headers
      } else {
        load_matrices(headers[chunk], row);  // access: ldmatrix.x2 of key headers
      }
    }
  }

  static __device__ __forceinline__ void shift_scores(const Query& query, uint32 stage,
                                                      float (&scores)[kHeadTiles][4]) {
    uint32 headers[kHeaderChunks][2];
    load_header_matrices<false>(headers, stage);
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] = 0.f;
#pragma unroll
      for (int chunk = 0; chunk < kHeaderChunks; ++chunk) {
        // The same headers twice along k: once against the sums' high parts, once against their low parts.
        mma_m16n8k16<Half>(scores[tile], headers[chunk][0], headers[chunk][1], headers[chunk][0], headers[chunk][1],
                           query.sums[tile][0][chunk], query.sums[tile][1][chunk]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] *= 1.f / kSubnormal;  // the packed words' products lack 2^24
    }
  }

  static __device__ __forceinline__ void shift_outputs(Accumulator& output, OnlineSoftmax<kHeadTiles>& softmax,
                                                       uint32 stage, const float (&weights)[kHeadTiles][4],
                                                       float (&rounded)[kHeadTiles][4]) {
    uint32 headers[kHeaderChunks][2];
    load_header_matrices<true>(headers, stage);
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      const uint32 low = Pair<Half>::pack(weights[tile][0], weights[tile][1]);
      const uint32 high = Pair<Half>::pack(weights[tile][2], weights[tile][3]);
      rounded[tile][0] = Pair<Half>::low(low);
      rounded[tile][1] = Pair<Half>::high(low);
      rounded[tile][2] = Pair<Half>::low(high);
      rounded[tile][3] = Pair<Half>::high(high);
      softmax.add(tile, rounded[tile][0], rounded[tile][1], rounded[tile][2], rounded[tile][3]);
      const uint32 second_low = kHeaderChunks == 2 ? headers[kHeaderChunks - 1][0] : 0;
      const uint32 second_high = kHeaderChunks == 2 ? headers[kHeaderChunks - 1][1] : 0;
      mma_m16n8k16<Half>(output.shifts[tile], headers[0][0], second_low, headers[0][1], second_high, transpose_8x8(low),
                         transpose_8x8(high));
    }
  }

  static __device__ __forceinline__ void raise_scale_limit(Accumulator& output, const uint32 (&pairs)[2][kGroups]) {
    float peak = 0.f;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) peak = maximum(peak, fabsf(Pair<Half>::low(pairs[row][group])));
    }
    if (!__any_sync(kFullWarp, peak > output.scale_limit)) return;
#pragma unroll
    for (int distance = 4; distance < kWarpSize; distance *= 2) {
      peak = maximum(peak, __shfl_xor_sync(kFullWarp, peak, distance));
    }
    const float limit = power_of_two(exponent_of(peak) + 2);
    const float factor = output.scale_limit / limit;
    output.scale_limit = limit;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int block = 0; block < 2 * kMatrices; ++block) {
#pragma unroll
        for (int i = 0; i < 4; ++i) output.blocks[tile][block][i] *= factor;
      }
    }
  }
};

}  // namespace cubit
