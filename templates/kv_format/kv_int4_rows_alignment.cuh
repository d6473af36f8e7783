// Alignment of int4_rows in a stage: rows begin at a multiple of 16 bytes or anywhere in a 16-byte vector, which
// decides the channels that a lane holds.
//
// Unaligned rows, whose size is no multiple of 16 bytes, may lie in the stage as in the cache (sm_90 kernel, kBefore).
// The row's header of one or two pairs then lies anywhere in a 16-byte vector, and the packed words follow. The loads
// fetch whole vectors, so they fetch one matrix more than the row has. A lane holds the same word of every vector. If
// the row's packed words begin at or before that word of the first vector, the lane uses loaded matrices from the first
// on, and otherwise from the second on. All rows of a warp begin at the same word of a vector, so each assembled matrix
// has all its words. Their order among the lanes differs from the order of aligned rows; Q's lanes and the stored
// outputs have the same order as the words.
//
// Interface:
//   kIsAligned                    whether rows begin at multiples of 16 bytes
//   words_before_header()         words of a 16-byte vector that come before a warp's rows
//   word_of(lane), half_word_of(lane), channel_of(lane, matrix)   the word of a matrix that a lane holds of a key row,
//                                 the half word that it holds of a value row, and the first of the four channels of
//                                 that half word
//   load<kTransposed>(headers, words, stage, lane)   loads headers and words of keys, or of values with kTransposed, as
//                                 load_header_matrices() and load_words() of Int4RowsLoads do
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/types.cuh"
#include "kv_format/kv_int4_rows_loads.cuh"

namespace cubit {

/// Unaligned rows. kBefore() returns how many bytes come before a warp's rows in the 16-byte vector in which they
/// begin; the number is the same for all rows of the warp.
template <class Shape, class Loads, int (*kBefore)()>
struct Int4RowsAlignment {
  static constexpr bool kIsAligned = false;
  static_assert(Shape::kHeaderBytes <= 8);
  static constexpr int kLoaded = Shape::kMatrices + 1;

  static __device__ __forceinline__ int words_before_header() { return kBefore() / 4; }
  static __device__ __forceinline__ int words_before() { return words_before_header() + Shape::kGroups; }
  static __device__ __forceinline__ int word_of(int lane) { return lanes::int4_word_between(lane, words_before()); }
  static __device__ __forceinline__ int half_word_of(int lane) {
    return lanes::int4_half_between(lane, words_before());
  }
  static __device__ __forceinline__ int channel_of(int lane, int matrix) {
    return lanes::int4_channel_between(lane, matrix, words_before());
  }

  /// Loaded matrix 0 has the header too. In a key header's vector, all words that are not the header are zeroed,
  /// because the shift term sums over the words of the vector. Headers of values need no zeros: each value of the
  /// vector becomes a row of the product, and rows that belong to no header are ignored.
  template <bool kTransposed>
  static __device__ __forceinline__ void load(uint32 (&headers)[1][2], uint32 (&words)[Shape::kMatrices][2],
                                              uint32 stage, int lane) {
    uint32 loaded[kLoaded][2];
    constexpr int kFirstRow = Loads::first_row(kTransposed);
    const int start = -4 * words_before_header();
#pragma unroll
    for (int matrix = 0; matrix < kLoaded; matrix += 2) {
      if (matrix + 1 < kLoaded) {
        Loads::template load_pair<kTransposed>(
            loaded, matrix, stage + Loads::address(lanes::int4_words(lane, matrix, start, kFirstRow)));
      } else {
        Loads::template load_last<kTransposed>(
            loaded[matrix], stage + Loads::address(lanes::int4_last_words(lane, matrix, start, kFirstRow)));
      }
    }
    const int word = kTransposed ? lane / 8 : lane % 4;
    const bool is_first = word >= words_before();
    // This is a mask because the compiler turned a condition into a branch.
    const uint32 header = settled(word >= words_before_header() && !is_first ? 0xffffffffu : 0u);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      headers[0][half] = kTransposed ? loaded[0][half] : loaded[0][half] & header;
#pragma unroll
      for (int matrix = 0; matrix < Shape::kMatrices; ++matrix)
        words[matrix][half] = is_first ? loaded[matrix][half] : loaded[matrix + 1][half];
    }
  }
};

/// Aligned rows. Each row begins with its header, padded with zeros to a multiple of 16 bytes.
template <class Shape, class Loads>
struct Int4RowsAlignment<Shape, Loads, nullptr> {
  static constexpr bool kIsAligned = true;

  static __device__ __forceinline__ int words_before_header() { return 0; }
  static __device__ __forceinline__ int word_of(int lane) { return lane % 4; }
  static __device__ __forceinline__ int half_word_of(int lane) { return lane / 4; }
  static __device__ __forceinline__ int channel_of(int lane, int matrix) { return lanes::int4_channel(lane, matrix); }

  template <bool kTransposed>
  static __device__ __forceinline__ void load(uint32 (&headers)[Shape::kHeaderChunks][2],
                                              uint32 (&words)[Shape::kMatrices][2], uint32 stage, int lane) {
    Loads::template load_words<kTransposed>(words, stage, lane);
    Loads::template load_header_matrices<kTransposed>(headers, stage);
  }
};

}  // namespace cubit
