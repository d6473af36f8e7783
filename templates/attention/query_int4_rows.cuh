// Query operands for rows of packed nibbles: the B operands of the products with key words and with key headers.
//
// The products with words extract nibbles without reordering them (kv_int4_rows.cuh), so Q's channels are ordered along
// k as the extraction orders the nibbles. The products with headers multiply the shifts of the keys by the sums of Q
// over quantisation groups. As in mma.cuh, r is lane / 4 and c is lane % 4.
#pragma once

#include "attention/query_operands.cuh"
#include "attention/query_scale.cuh"
#include "core/copies.cuh"
#include "core/math.cuh"
#include "core/mma.cuh"
#include "core/types.cuh"
#include "kv_format/kv_int4_rows_alignment.cuh"

namespace cubit {

/// Words of a lane's query operands for one head tile. A matrix of 32 channels takes four words: b0 and b1 of the
/// product with the lower bytes of the key words, then b0 and b1 of the product with their upper bytes. A tail follows.
/// The tail holds the operands of the shift term: lane (r, c) has, for head r, the fp16 pairs (0, sum of Q over group
/// c + 4 · chunk). The sums as rounded to fp16 (high parts) of all chunks come first, then the remainders (low parts).
/// The tail ends with two floats: the score factors of heads 2c and 2c + 1.
template <class Shape>
struct Int4QueryWords {
  static constexpr int kSumsAt = 4 * Shape::kMatrices;
  static constexpr int kFactorsAt = kSumsAt + 2 * Shape::kHeaderChunks;
  static constexpr int kCount = padded_query_words(kFactorsAt + 2);
  static constexpr int kTail = kCount - kSumsAt;

  template <class Query>
  static __device__ __forceinline__ void get_tail(uint32 (&words)[kTail], const Query& query, int tile) {
#pragma unroll
    for (int first = 0; first < kTail; first += 4) {
      uint32 four[4];
      query.get(four, tile, kSumsAt + first);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[first + i] = four[i];
    }
  }
  /// Factor of the scores of a lane's element i, read from a tail.
  static __device__ __forceinline__ float factor(const uint32 (&tail)[kTail], int i) {
    return __uint_as_float(tail[kFactorsAt - kSumsAt + (i & 1)]);
  }
};

/// Queries as loaded from global memory. Lane (r, c) has head 8 · tile + r. words[tile][matrix] are the head's channels
/// 32 · matrix + 8w … 32 · matrix + 8w + 7, two in a word, with w = Alignment::word_of(lane) (w = c for aligned rows).
template <class QueryElement, class Shape, class Alignment, int kHeadTiles, int kAlignment>
struct QueryForInt4Rows {
  static constexpr int kMatrices = Shape::kMatrices;
  using Words = Int4QueryWords<Shape>;

  uint32 words[kHeadTiles][kMatrices][4];

  /// Loads the queries of `heads` heads. Heads beyond the last one duplicate the last head, and their results are not
  /// stored.
  template <class Rows>
  __device__ __forceinline__ void fetch(Rows rows, int heads) {
    const int lane = lane_index();
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      const int head = min(8 * tile + lane / 4, heads - 1);
      int word = lane % 4;
      if constexpr (!Alignment::kIsAligned) word = Alignment::word_of(lane);
      const char* const row = settled(rows.row(head) + 16 * word);
      // Rows that happen to be aligned better than the plan requires are read with wider loads.
      if (!Alignment::kIsAligned && kAlignment < 16 && reinterpret_cast<uint64>(row) % 16 == 0) {
#pragma unroll
        for (int matrix = 0; matrix < kMatrices; ++matrix) load_global<4, 16>(words[tile][matrix], row + 64 * matrix);
        continue;
      }
#pragma unroll
      for (int matrix = 0; matrix < kMatrices; ++matrix) {
        load_global<4, kAlignment>(words[tile][matrix], row + 64 * matrix);
      }
    }
  }

  /// Makes the operands and stores them in `query`; whole warps call the function. Each head's channels are multiplied
  /// by a power of two, see query_scale.cuh. `factor` is the softmax scale in base 2. The stored score factors also
  /// undo the power of two and the factor 2^-24 of the products of packed words.
  template <class Query>
  __device__ __forceinline__ void make_operands(Query& query, float factor) const {
    using Source = Pair<QueryElement>;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      uint32 operands[Words::kCount] = {};
      uint32 peaks = 0;
#pragma unroll
      for (int matrix = 0; matrix < kMatrices; ++matrix) {
#pragma unroll
        for (int i = 0; i < 4; ++i) peaks = Source::larger_magnitudes(peaks, words[tile][matrix][i]);
      }
      const float peak = maximum(Source::low(peaks), Source::high(peaks));
      const int exponent = query_exponent<Shape::kGroupChannels>(peak_of_head(peak));
      pack(operands, words[tile], power_of_two(exponent));
      add_sums(operands);
      float factors[2];
      spread_to_score_lanes(factors, factor * Shape::kSubnormal * power_of_two(-exponent));
#pragma unroll
      for (int i = 0; i < 2; ++i) operands[Words::kFactorsAt + i] = __float_as_uint(factors[i]);
      query.set(tile, operands);
    }
  }

 private:
  /// Packs channels in the order in which the products extract nibbles: b0 has channels (2i, 2i + 4) and b1 has
  /// channels (2i + 1, 2i + 5) of the lane's 8. Odd channels are divided by 16, because odd nibbles are extracted 16
  /// times larger.
  static __device__ __forceinline__ void pack(uint32 (&operands)[Words::kCount], const uint32 (&raw)[kMatrices][4],
                                              float scale) {
    using Source = Pair<QueryElement>;
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
      const uint32(&q)[4] = raw[matrix];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        operands[4 * matrix + 2 * i] = Pair<Half>::pack(Source::low(q[i]) * scale, Source::low(q[i + 2]) * scale);
        operands[4 * matrix + 2 * i + 1] =
            Pair<Half>::pack(Source::high(q[i]) * (scale / 16), Source::high(q[i + 2]) * (scale / 16));
      }
    }
  }

  /// Computes the group sums with tensor cores: row 2g + 1 of A has ones (and sixteens, for the channels that pack()
  /// has divided) at the channels of group g and zeros elsewhere; even rows of A are zeros. Rows 0-7 and 8-15 of the
  /// accumulator are the pairs of chunk 0 and of chunk 1. Rounded to fp16 and transposed, these rows are the B operands
  /// of the shift term. In unaligned rows, words of other rows may come before a header in its 16-byte vector; g counts
  /// these words as well.
  static __device__ __forceinline__ void add_sums(uint32 (&operands)[Words::kCount]) {
    const int lane = lane_index();
    const int first_pair = Alignment::words_before_header();
    float rows[4] = {};
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
      const int half = Shape::kGroupsShareMatrices ? 2 * matrix + Alignment::word_of(lane) / 2 : 2 * matrix;
      const int group = half / Shape::kHalvesPerGroup;
      const bool mine = lane / 4 == (2 * (first_pair + group) + 1) % 8;
      const uint32 even = mine ? 0x3c003c00u : 0u;  // ones
      const uint32 odd = mine ? 0x4c004c00u : 0u;   // sixteens
      // Groups from 4 on use rows 8 … 15.
      const bool below = 32 * matrix / Shape::kGroupChannels < 4;
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        mma_m16n8k16<Half>(rows, below ? even : 0, below ? 0 : even, below ? odd : 0, below ? 0 : odd,
                           operands[4 * matrix + 2 * step], operands[4 * matrix + 2 * step + 1]);
      }
    }
#pragma unroll
    for (int chunk = 0; chunk < Shape::kHeaderChunks; ++chunk) {
      const float low = rows[2 * chunk];
      const float high = rows[2 * chunk + 1];
      const uint32 rounded = Pair<Half>::pack(low, high);
      operands[Words::kSumsAt + chunk] = transpose_8x8(rounded);
      operands[Words::kSumsAt + Shape::kHeaderChunks + chunk] =
          transpose_8x8(Pair<Half>::pack(low - Pair<Half>::low(rounded), high - Pair<Half>::high(rounded)));
    }
  }
};

}  // namespace cubit
