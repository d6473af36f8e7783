// Number format: int4_rows, a header of kGroups (scale, shift) pairs of fp16, then head_dim nibbles, low nibble first.
// value = scale · nibble + shift.
//
// Nothing is dequantised. `word & 0x000f000f` is a pair of fp16 subnormals n0 · 2^-24, `word & 0x00f000f0` the pair
// 16 · n1 · 2^-24, and tensor cores multiply subnormals exactly. The order of channels along k that this gives is
// matched by Q's registers; 2^24 is undone on accumulators, 16 on Q. Q's values stay what they are: a difference of two
// of them would not, which is why only values take the cheaper pair n0 + 16 · n1 (`word & 0x00ff00ff`, or a word's
// upper bytes as they are) and undo the mixture on the stored output.
//
// A stage's row:  | header, padded with zeros to 16 bytes | head_dim / 2 bytes of words |
// A matrix of ldmatrix is 8 rows × 16 bytes = 32 channels; lane (r, c) gets word c of row r: channels 8c … 8c+7.
//
// Rows that are no multiple of 16 bytes may lie as they come (family sm90, kBefore): a row's words then begin anywhere in
// 16 bytes, and so does its header, of one or two pairs. One matrix more is loaded. Of each two neighbours a lane takes
// its word of the first if that is one of the row's, else of the second: it is the same for all rows of a warp, so that
// a matrix has all its words, in an order that Q's lanes and the stored outputs follow.
//
// Scores:   per group  S += scale · (K words · Qᵀ),  and once per tile  S += headers · (0, group sum of Q) pairs
// Outputs:  per group  Oᵀ += (V words)ᵀ · (P · scale)ᵀ,  and once per tile  shifts += headersᵀ · Pᵀ
//
// Interface of a number format: see gqa_decode_block.cuh.
#pragma once

#include "copies.cuh"
#include "gqa_decode_lanes.h"
#include "kv_scales.cuh"
#include "mma.cuh"
#include "online_softmax.cuh"
#include "query_operands.cuh"
#include "query_scale.cuh"
#include "types.cuh"

namespace cubit {

/// kQueryIsShared: as keys, see query_operands.cuh. kBefore: rows are as in the cache, and so many bytes come before a
/// warp's in the 16 in which they begin, the same number for all; null: they are padded and begin with those.
template <class QueryElement, int kHeadDim, int kGroups, int kHeads, int kAlignment, int (*kAddress)(int, int),
          bool kQueryIsShared = false, int (*kBefore)() = nullptr>
struct Int4Rows : WithoutScales {
  static constexpr int kTileRows = lanes::kTileRows;
  static constexpr int kHeadTiles = (kHeads + 7) / 8;
  static constexpr int kTilesPerStep = 1;
  using Layout = TokensByHeads<kHeadTiles>;
  static constexpr int kMatrices = kHeadDim / 32;
  static constexpr int kGroupChannels = kHeadDim / kGroups;
  static_assert(kGroupChannels % 16 == 0 && kHeadDim % 32 == 0);
  /// A matrix is two halves of 16 channels: lanes c = 0, 1 hold the one, c = 2, 3 the other. A group is a number of
  /// halves; where that is odd, groups meet inside a matrix.
  static constexpr int kHalvesPerGroup = kGroupChannels / 16;
  static constexpr bool kGroupsShareMatrices = kHalvesPerGroup % 2 == 1;
  static constexpr int kMatricesPerGroup =
      (kHalvesPerGroup + 1) / 2;  // for every group: of odd ones each second ends inside
  static constexpr int kHeaderBytes = 4 * kGroups;
  static constexpr int kHeaderChunks = (kHeaderBytes + 15) / 16;
  static constexpr int kWordsStart = 16 * kHeaderChunks;
  static constexpr int kRowBytes = kHeaderBytes + kHeadDim / 2;
  static constexpr uint32 kEven = 0x000f000fu;
  static constexpr uint32 kOdd = 0x00f000f0u;
  static constexpr uint32 kBoth = 0x00ff00ffu;
  static constexpr float kSubnormal = 16777216.f;  // 2^24

  // Words of a lane's query operands: four for the two products of each matrix, then those of the shift term, pairs (0,
  // sum of Q over group c + 4 · chunk) as high parts of all chunks and low parts of all, then two factors, which are
  // floats.
  static constexpr int kSumsAt = 4 * kMatrices;
  static constexpr int kFactorsAt = kSumsAt + 2 * kHeaderChunks;
  static constexpr int kQueryWords = padded_query_words(kFactorsAt + 2);
  using Query = typename ChooseQuery<kQueryIsShared, kHeadTiles, kQueryWords>::Type;
  /// Makes the operands of one of the tiles, for which factors are to be multiplied by this: of many tiles what the
  /// packed words' products lack is made up for beforehand.
  static constexpr float kSharedQueryFactor = 1.f / kSubnormal;
  using OneTile = Int4Rows<QueryElement, kHeadDim, kGroups, 8, kAlignment, kAddress>;

  /// Several head tiles share what is made of a tile's rows, so that less is left for each of them to do: weights are
  /// transposed before they are multiplied by the scales of the groups, once; so they are A operands as well, of two
  /// head tiles, and heads the M of the shift term; and that sums the weights.
  static constexpr bool kManyTiles = kHeadTiles > 1;
  static constexpr bool kSumsWeights = kManyTiles;

  static constexpr bool kIsBetween = kBefore != nullptr;  ///< a row begins between multiples of 16 bytes
  static_assert(!kIsBetween || (kHeadTiles == 1 && !kQueryIsShared && kHeaderBytes <= 8));
  /// Of a group's products, so that few of them wait for one another where groups are few, and registers many.
  static constexpr int kMostSums = kGroups == 1 ? 4 : kHeadDim < 256 ? 2 : 1;
  static constexpr int kSums = !kIsBetween ? 1 : kMatricesPerGroup < kMostSums ? kMatricesPerGroup : kMostSums;

  struct Accumulator {
    // Block 2i + h holds channels 32i + 4r + 2h of matrix i (rows r), and those plus 16 times the next (rows r + 8).
    float blocks[kHeadTiles][2 * kMatrices][4] = {};
    // Of one tile: row 2g + 1 is the sum of weight · shift of group g. Of several: rows are heads of two tiles, column
    // 2c + 1 of block i is that sum of group c + 4i, column 0 of the first block the sum of weights.
    float shifts[kManyTiles ? (kHeadTiles + 1) / 2 : 1][kManyTiles ? kHeaderChunks : 1][4] = {};
  };

  /// Weights are multiplied by scales.
  static constexpr bool kWeightsAreScaled = true;

  /// Headers of a tile's values: (scale, shift) of rows r and r + 8, and the largest |scale| of those. Where kManyTiles:
  /// scales of rows 2c and 2c + 1, and of 2c + 8 and 2c + 9.
  struct ValueScales {
    uint32 pairs[2][kGroups];
    float peak;
  };

  static constexpr __device__ __forceinline__ int stage_byte(int row_byte) {
    return row_byte < kHeaderBytes ? row_byte : row_byte + (kWordsStart - kHeaderBytes);
  }

  /// Zeroes what copies of 16 rows never write: the shift products read whole 16-byte headers.
  static __device__ __forceinline__ void clear_padding(uint32 stage, int first_row) {
    constexpr int kPaddingWords = (kWordsStart - kHeaderBytes) / 4;
    if constexpr (kPaddingWords > 0) {
      const int lane = lane_index();
      if (lane / 8 >= kPaddingWords) return;
#pragma unroll
      for (int row = first_row; row < first_row + kTileRows; row += 8) {
        const uint32 at = stage + address(lanes::int4_padding(lane, row, kHeaderBytes));
        store_shared_word(at, 0);  // access: zeros beside headers
      }
    }
  }

  /// A head's channels 32 · matrix + 8c … 8c + 7 in the lanes r of the head.
  struct RawQuery {
    uint32 words[kHeadTiles][kMatrices][4];
  };

  template <class Rows>
  static __device__ __forceinline__ void fetch_query(RawQuery& raw, Rows rows, int heads) {
    const int lane = lane_index();
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      // Beyond the last head: the last one again, whose results are not stored.
      const int head = min(8 * tile + lane / 4, heads - 1);
      int word = lane % 4;
      if constexpr (kIsBetween) word = word_of(lane);
      const char* const row = settled(rows.row(head) + 16 * word);
      // What is aligned better than it must be is read sooner.
      if (kIsBetween && kAlignment < 16 && reinterpret_cast<uint64>(row) % 16 == 0) {
#pragma unroll
        for (int matrix = 0; matrix < kMatrices; ++matrix)
          load_global<4, 16>(raw.words[tile][matrix], row + 64 * matrix);
        continue;
      }
#pragma unroll
      for (int matrix = 0; matrix < kMatrices; ++matrix) {
        load_global<4, kAlignment>(raw.words[tile][matrix], row + 64 * matrix);
      }
    }
  }

  static __device__ __forceinline__ void load_query(Query& query, const RawQuery& raw, float factor) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      uint32 words[kQueryWords] = {};
      uint32 peaks = 0;
#pragma unroll
      for (int matrix = 0; matrix < kMatrices; ++matrix) {
#pragma unroll
        for (int i = 0; i < 4; ++i) peaks = Pair<QueryElement>::larger_magnitudes(peaks, raw.words[tile][matrix][i]);
      }
      const float peak = maximum(Pair<QueryElement>::low(peaks), Pair<QueryElement>::high(peaks));
      const int exponent = query_exponent<kGroupChannels>(peak_of_head(peak));
      pack_query(words, raw.words[tile], power_of_two(exponent));
      sum_query(words);
      float factors[2];
      spread_to_score_lanes(factors, factor * kSubnormal * power_of_two(-exponent));
#pragma unroll
      for (int i = 0; i < 2; ++i) words[kFactorsAt + i] = __float_as_uint(factors[i]);
      query.set(tile, words);
    }
  }

  template <class TileScales>
  static __device__ __forceinline__ void scores(const Query& query, uint32 stage, const TileScales&,
                                                float (&scores)[kHeadTiles][4]) {
    const int lane = lane_index();
    // What is left of a query operand is loaded once: with its factors, behind the others.
    constexpr bool kShiftsLast = Query::kIsShared;
    uint32 words[kMatrices][2];
    if constexpr (kShiftsLast) {
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile)
        scores[tile][0] = scores[tile][1] = scores[tile][2] = scores[tile][3] = 0.f;
    } else if constexpr (kIsBetween) {
      uint32 headers[kHeaderChunks][2];
      load_between<false>(headers, words, stage, lane);
      shift_scores(query, headers, scores);
    } else {
      shift_scores(query, stage, scores);
    }
    uint32 pairs[2][kGroups];       // (scale, shift) of rows r and r + 8
    load_headers(pairs, stage, 0);  // access: loads of key scales
    if constexpr (!kShiftsLast && !kIsBetween) load_words<false>(words, stage, lane);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      float sums[kSums][kHeadTiles][4] = {};
#pragma unroll
      for (int i = 0; i < kMatricesPerGroup; ++i) {
        float(&products)[kHeadTiles][4] = sums[i % kSums];
        const int matrix = first_matrix(group) + i;
        if constexpr (kShiftsLast) {
          if (matrix % 2 == 0 && !is_begun(matrix, group)) load_two<false>(words, stage, lane, matrix);
        }
        uint32 mine = 0xffffffffu;
        if (is_shared(matrix, group)) mine = word_of(lane) / 2 == half_of(matrix, group) ? recomputed(-1) : 0u;
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
      // Where the shifts come last they are added as they are: what the packed words' products lack is made up for
      // here.
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
    if constexpr (kShiftsLast) load_header_matrices<false>(headers, stage);
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      uint32 words[kTailWords];
      get_tail(words, query, tile);
      if constexpr (kShiftsLast) add_shifts(scores[tile], headers, words);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] *= __uint_as_float(words[kFactorsAt - kSumsAt + (i & 1)]);
    }
  }

  template <class Softmax>
  static __device__ __forceinline__ void accumulate(Accumulator& output, Softmax& softmax, uint32 stage,
                                                    const ValueScales& scales, const float (&weights)[kHeadTiles][4]) {
    const int lane = lane_index();
    uint32 words[kMatrices][2];
    uint32 headers[kHeaderChunks][2];
    if constexpr (kIsBetween) {
      load_between<true>(headers, words, stage, lane);
    } else {
      load_words<true>(words, stage, lane);
      load_header_matrices<true>(headers, stage);
    }

    uint32 rounded[kHeadTiles][2];
    shift_outputs(output, softmax, headers, weights, rounded);
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
#pragma unroll
      for (int i = 0; i < kMatricesPerGroup; ++i) {
        const int matrix = first_matrix(group) + i;
        uint32 x = words[matrix][0];
        uint32 y = words[matrix][1];
        if (is_shared(matrix, group)) {
          // Transposed, lane / 4 counts 4-channel units: the first 4 are one half, the last 4 the other.
          const uint32 mine = (half_word_of(lane) / 4 == half_of(matrix, group)) ? 0xffffffffu : 0u;
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
      load_transposed_scales(scales.pairs, stage);
    } else {
      load_headers(scales.pairs, stage, kTileRows);  // access: loads of value scales
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

  /// Behind the loop, where kSumsWeights.
  template <class Softmax>
  static __device__ __forceinline__ void add_weights(Softmax& softmax, const Accumulator& output) {
    const int lane = lane_index();
    const float mine = lane < 4 ? 1.f : 0.f;  // the sums over lanes that follow take it once
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      const float sum = output.shifts[tile / 2][0][tile % 2 * 2];
      const float even = __shfl_sync(kFullWarp, sum, lane % 4 * 8);
      const float odd = __shfl_sync(kFullWarp, sum, lane % 4 * 8 + 4);
      softmax.add(tile, even * mine, odd * mine, 0.f, 0.f);
    }
  }

  static __device__ __forceinline__ void rescale(Accumulator& output, const float (&factors)[kHeadTiles][2]) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int block = 0; block < 2 * kMatrices; ++block) output.blocks[tile][block][i] *= factors[tile][i & 1];
        if constexpr (!kManyTiles) output.shifts[tile][0][i] *= factors[tile][i & 1];
      }
      if constexpr (kManyTiles) rescale_shifts(output, tile, factors[tile]);
    }
  }

  /// dst[head * pitch + channel] for heads below kHeads; pitch is a multiple of 4 and dst is 16-byte aligned.
  static __device__ __forceinline__ void store(const Accumulator& output, float* dst, int pitch) {
    const int lane = lane_index();
    constexpr float even = kSubnormal;
    constexpr float odd = even / 16.f;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float shifts[kMatrices];
#pragma unroll
        for (int matrix = 0; matrix < kMatrices; ++matrix) {
          const int group = channel_of(lane, matrix) / kGroupChannels;
          shifts[matrix] = shift_of(output, tile, i, group);
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
          const int at = head * pitch + channel_of(lane, matrix);
          store_shared(shared_address(dst) + 4 * at, four);  // access: stores of warps' outputs
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ int address(lanes::Place place) { return kAddress(place.row, place.byte); }

  /// Words of 16 bytes that come before a warp's rows, and before their words; 0 where the header is padded.
  static __device__ __forceinline__ int words_before_header() {
    if constexpr (kIsBetween) return kBefore() / 4;
    return 0;
  }
  static __device__ __forceinline__ int words_before() { return words_before_header() + kGroups; }

  /// Of a matrix the word that a lane has of a row of keys, the half of a word of values and the channels of that.
  static __device__ __forceinline__ int word_of(int lane) {
    if constexpr (kIsBetween) return lanes::int4_word_between(lane, words_before());
    return lane % 4;
  }
  static __device__ __forceinline__ int half_word_of(int lane) {
    if constexpr (kIsBetween) return lanes::int4_half_between(lane, words_before());
    return lane / 4;
  }
  static __device__ __forceinline__ int channel_of(int lane, int matrix) {
    if constexpr (kIsBetween) return lanes::int4_channel_between(lane, matrix, words_before());
    return lanes::int4_channel(lane, matrix);
  }

  static constexpr __device__ int first_matrix(int group) { return group * kHalvesPerGroup / 2; }
  /// Whether one half of the matrix is another group's.
  static constexpr __device__ bool is_shared(int matrix, int group) {
    return kGroupsShareMatrices &&
           (2 * matrix < group * kHalvesPerGroup || 2 * matrix + 2 > (group + 1) * kHalvesPerGroup);
  }
  /// Whether an earlier group has used it.
  static constexpr __device__ bool is_begun(int matrix, int group) { return 2 * matrix < group * kHalvesPerGroup; }
  /// Of a shared matrix, the group's half.
  static constexpr __device__ int half_of(int matrix, int group) { return 2 * matrix < group * kHalvesPerGroup; }

  /// Pairs (n0 + 16 · n1) of a word's lower bytes (step 0), or of what upper_bytes has left (step 1).
  static __device__ __forceinline__ uint32 both(uint32 word, int step) { return step == 0 ? word & kBoth : word; }
  static __device__ __forceinline__ uint32 upper_bytes(uint32 word) { return __byte_perm(word, 0, 0x4341); }

  /// Channels in the order in which the words' nibbles come along k, the odd ones divided by 16.
  static __device__ __forceinline__ void pack_query(uint32 (&words)[kQueryWords], const uint32 (&raw)[kMatrices][4],
                                                    float scale) {
    using Source = Pair<QueryElement>;
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
      const uint32(&q)[4] = raw[matrix];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        words[4 * matrix + 2 * i] = Pair<Half>::pack(Source::low(q[i]) * scale, Source::low(q[i + 2]) * scale);
        words[4 * matrix + 2 * i + 1] =
            Pair<Half>::pack(Source::high(q[i]) * (scale / 16), Source::high(q[i + 2]) * (scale / 16));
      }
    }
  }

  /// The group sums, by tensor cores: row 2g + 1 of A selects the channels of group g, so the product is the B operand
  /// of the shift term, as an accumulator. Where headers lie between, g counts the words before them as well.
  static __device__ __forceinline__ void sum_query(uint32 (&words)[kQueryWords]) {
    const int lane = lane_index();
    const int first_pair = words_before_header();
    float rows[4] = {};
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
      const int half = kGroupsShareMatrices ? 2 * matrix + word_of(lane) / 2 : 2 * matrix;
      const int group = half / kHalvesPerGroup;
      const bool mine = lane / 4 == (2 * (first_pair + group) + 1) % 8;
      const uint32 even = mine ? 0x3c003c00u : 0u;  // ones
      const uint32 odd = mine ? 0x4c004c00u : 0u;   // sixteens
      // Groups from 4 on are rows 8 … 15.
      const bool below = 32 * matrix / kGroupChannels < 4;
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        mma_m16n8k16<Half>(rows, below ? even : 0, below ? 0 : even, below ? odd : 0, below ? 0 : odd,
                           words[4 * matrix + 2 * step], words[4 * matrix + 2 * step + 1]);
      }
    }
#pragma unroll
    for (int chunk = 0; chunk < kHeaderChunks; ++chunk) {
      const float low = rows[2 * chunk];
      const float high = rows[2 * chunk + 1];
      const uint32 rounded = Pair<Half>::pack(low, high);
      words[kSumsAt + chunk] = transpose_8x8(rounded);
      words[kSumsAt + kHeaderChunks + chunk] =
          transpose_8x8(Pair<Half>::pack(low - Pair<Half>::low(rounded), high - Pair<Half>::high(rounded)));
    }
  }

  static constexpr int kTailWords = kQueryWords - kSumsAt;
  /// A tile's sums and factors.
  static __device__ __forceinline__ void get_tail(uint32 (&words)[kTailWords], const Query& query, int tile) {
#pragma unroll
    for (int first = 0; first < kTailWords; first += 4) {
      uint32 four[4];
      query.get(four, tile, kSumsAt + first);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[first + i] = four[i];
    }
  }

  /// words[matrix] = the word of rows 0-7 and of rows 8-15 in fragment order: of keys, or transposed of values.
  template <bool kTransposed>
  static __device__ __forceinline__ void load_words(uint32 (&words)[kMatrices][2], uint32 stage, int lane) {
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; matrix += 2) load_two<kTransposed>(words, stage, lane, matrix);
  }

  /// Those of matrix `matrix` and of the next, or of the last alone.
  template <bool kTransposed>
  static __device__ __forceinline__ void load_two(uint32 (&words)[kMatrices][2], uint32 stage, int lane, int matrix) {
    constexpr int kFirstRow = kTransposed ? kTileRows : 0;
    if (matrix + 1 < kMatrices) {
      uint32 loaded[4];
      const uint32 row = stage + address(lanes::int4_words(lane, matrix, kWordsStart, kFirstRow));
      if constexpr (kTransposed) {
        load_matrices_transposed(loaded, row);  // access: ldmatrix.x4.trans of value words
      } else {
        load_matrices(loaded, row);  // access: ldmatrix.x4 of key words
      }
      words[matrix][0] = loaded[0];
      words[matrix][1] = loaded[1];
      words[matrix + 1][0] = loaded[2];
      words[matrix + 1][1] = loaded[3];
    } else {
      const uint32 row = stage + address(lanes::int4_last_words(lane, matrix, kWordsStart, kFirstRow));
      if constexpr (kTransposed) {
        load_matrices_transposed(words[matrix], row);  // access: ldmatrix.x2.trans of the last value words
      } else {
        load_matrices(words[matrix], row);  // access: ldmatrix.x2 of the last key words
      }
    }
  }

  /// Where rows begin between: the words as load_words, and headers as a 16-bit matrix: of keys with zeros beside them,
  /// of values, whose columns are rows of the product, with what else is there.
  template <bool kTransposed>
  static __device__ __forceinline__ void load_between(uint32 (&headers)[1][2], uint32 (&words)[kMatrices][2],
                                                      uint32 stage, int lane) {
    constexpr int kFirstRow = kTransposed ? kTileRows : 0;
    constexpr int kAll = kMatrices + 1;
    const int start = -4 * words_before_header();
    uint32 all[kAll][2];
#pragma unroll
    for (int matrix = 0; matrix < kAll; matrix += 2) {
      if (matrix + 1 < kAll) {
        uint32 loaded[4];
        const uint32 row = stage + address(lanes::int4_words(lane, matrix, start, kFirstRow));
        if constexpr (kTransposed) {
          load_matrices_transposed(loaded, row);  // access: ldmatrix.x4.trans of value rows
        } else {
          load_matrices(loaded, row);  // access: ldmatrix.x4 of key rows
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) all[matrix + i / 2][i % 2] = loaded[i];
      } else {
        const uint32 row = stage + address(lanes::int4_last_words(lane, matrix, start, kFirstRow));
        if constexpr (kTransposed) {
          load_matrices_transposed(all[matrix], row);  // access: ldmatrix.x2.trans of the last value rows
        } else {
          load_matrices(all[matrix], row);  // access: ldmatrix.x2 of the last key rows
        }
      }
    }
    const int word = kTransposed ? lane / 8 : lane % 4;
    const bool is_first = word >= words_before();
    // A mask, for of a condition the compiler made a branch.
    const uint32 header = settled(word >= words_before_header() && !is_first ? 0xffffffffu : 0u);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      headers[0][half] = kTransposed ? all[0][half] : all[0][half] & header;
#pragma unroll
      for (int matrix = 0; matrix < kMatrices; ++matrix)
        words[matrix][half] = is_first ? all[matrix][half] : all[matrix + 1][half];
    }
  }

  static __device__ __forceinline__ void load_headers(uint32 (&pairs)[2][kGroups], uint32 stage, int first_row) {
    const int lane = lane_index();
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

  /// Of the values' rows as the products take them along k.
  static __device__ __forceinline__ void load_transposed_scales(uint32 (&pairs)[2][kGroups], uint32 stage) {
    const int lane = lane_index();
    constexpr int kPiece = kGroups < 4 ? kGroups : 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int first = 0; first < kGroups; first += kPiece) {
        uint32 even[kPiece];
        uint32 odd[kPiece];
        const uint32 row = stage + address(lanes::int4_token_pairs(lane, 2 * half, first, kTileRows));
        const uint32 next_row = stage + address(lanes::int4_token_pairs(lane, 2 * half + 1, first, kTileRows));
        load_shared(even, row);      // access: loads of value scales
        load_shared(odd, next_row);  // access: loads of value scales
#pragma unroll
        for (int i = 0; i < kPiece; ++i) pairs[half][first + i] = __byte_perm(even[i], odd[i], 0x5410);
      }
    }
  }

  /// Headers as a 16-bit matrix, 8 values of 16 rows per chunk: plain for K, transposed for V.
  template <bool kTransposed>
  static __device__ __forceinline__ void load_header_matrices(uint32 (&headers)[kHeaderChunks][2], uint32 stage) {
    const int lane = lane_index();
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

  /// Sum of weight · shift of head 2c + i, by all lanes of a warp.
  static __device__ __forceinline__ float shift_of(const Accumulator& output, int tile, int i, int group) {
    const int column = lane_index() % 4;
    if constexpr (kManyTiles) {
      const int source = 4 * (2 * column + i) + group % 4;
      const int element = tile % 2 * 2 + 1;
      const float first = __shfl_sync(kFullWarp, output.shifts[tile / 2][0][element], source);
      if constexpr (kGroups <= 4) return first;
      const float second = __shfl_sync(kFullWarp, output.shifts[tile / 2][kHeaderChunks - 1][element], source);
      return group < 4 ? first : second;
    } else {
      // Rows below 8 are in elements 0 and 1, the others in 2 and 3.
      const int source = (2 * (words_before_header() + group) + 1) % 8 * 4 + column;
      const float first = __shfl_sync(kFullWarp, output.shifts[tile][0][i], source);
      const float second = kGroups > 4 ? __shfl_sync(kFullWarp, output.shifts[tile][0][i + 2], source) : 0.f;
      return group < 4 ? first : second;
    }
  }

  /// Of several tiles: `factors` are those of heads 2c and 2c + 1, rows are heads.
  static __device__ __forceinline__ void rescale_shifts(Accumulator& output, int tile, const float (&factors)[2]) {
    const int row = lane_index() / 4;
    const float even = __shfl_sync(kFullWarp, factors[0], row / 2);
    const float odd = __shfl_sync(kFullWarp, factors[1], row / 2);
    const float factor = row % 2 == 0 ? even : odd;
#pragma unroll
    for (int chunk = 0; chunk < kHeaderChunks; ++chunk) {
      output.shifts[tile / 2][chunk][tile % 2 * 2] *= factor;
      output.shifts[tile / 2][chunk][tile % 2 * 2 + 1] *= factor;
    }
  }

  /// Products of keys' headers and a tile's sums of Q.
  static __device__ __forceinline__ void add_shifts(float (&shifts)[4], const uint32 (&headers)[kHeaderChunks][2],
                                                    const uint32 (&sums)[kTailWords]) {
#pragma unroll
    for (int chunk = 0; chunk < kHeaderChunks; ++chunk) {
      // The same headers twice along k: once against the sums' high parts, once against their low parts.
      mma_m16n8k16<Half>(shifts, headers[chunk][0], headers[chunk][1], headers[chunk][0], headers[chunk][1],
                         sums[chunk], sums[kHeaderChunks + chunk]);
    }
  }

  static __device__ __forceinline__ void shift_scores(const Query& query, uint32 stage,
                                                      float (&scores)[kHeadTiles][4]) {
    uint32 headers[kHeaderChunks][2];
    load_header_matrices<false>(headers, stage);
    shift_scores(query, headers, scores);
  }

  static __device__ __forceinline__ void shift_scores(const Query& query, const uint32 (&headers)[kHeaderChunks][2],
                                                      float (&scores)[kHeadTiles][4]) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] = 0.f;
      uint32 words[kTailWords];
      get_tail(words, query, tile);
      add_shifts(scores[tile], headers, words);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] *= 1.f / kSubnormal;  // the packed words' products lack 2^24
    }
  }

  /// `rounded`: the weights in fp16, of rows r and of rows r + 8; of several tiles, as operands.
  template <class Softmax>
  static __device__ __forceinline__ void shift_outputs(Accumulator& output, Softmax& softmax,
                                                       uint32 (&headers)[kHeaderChunks][2],
                                                       const float (&weights)[kHeadTiles][4],
                                                       uint32 (&rounded)[kHeadTiles][2]) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 2; ++i) rounded[tile][i] = Pair<Half>::pack(weights[tile][2 * i], weights[tile][2 * i + 1]);
    }
    if constexpr (kManyTiles) {
      constexpr uint32 kOnes = 0x3c003c00u;
      if (lane_index() < 4) headers[0][0] = headers[0][1] = kOnes;  // column 0, instead of a scale
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 2; ++i) rounded[tile][i] = transpose_8x8(rounded[tile][i]);
        if (tile % 2 == 0 && tile + 1 < kHeadTiles) continue;
        const uint32(&even)[2] = rounded[tile / 2 * 2];
        const uint32 odd[2] = {tile % 2 == 0 ? 0 : rounded[tile][0], tile % 2 == 0 ? 0 : rounded[tile][1]};
#pragma unroll
        for (int chunk = 0; chunk < kHeaderChunks; ++chunk) {
          mma_m16n8k16<Half>(output.shifts[tile / 2][chunk], even[0], odd[0], even[1], odd[1], headers[chunk][0],
                             headers[chunk][1]);
        }
      }
    } else {
      const uint32 low = rounded[0][0];
      const uint32 high = rounded[0][1];
      softmax.add(0, Pair<Half>::low(low), Pair<Half>::high(low), Pair<Half>::low(high), Pair<Half>::high(high));
      const uint32 second_low = kHeaderChunks == 2 ? headers[kHeaderChunks - 1][0] : 0;
      const uint32 second_high = kHeaderChunks == 2 ? headers[kHeaderChunks - 1][1] : 0;
      mma_m16n8k16<Half>(output.shifts[0][0], headers[0][0], second_low, headers[0][1], second_high, transpose_8x8(low),
                         transpose_8x8(high));
    }
  }
};

}  // namespace cubit
