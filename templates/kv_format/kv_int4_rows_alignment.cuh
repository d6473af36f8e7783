// int4_rows: where the rows of a stage begin, at a multiple of 16 bytes or between two, and so which channels a lane
// has.
//
// Unaligned rows, no multiple of 16 bytes, may lie as they come (family sm90, kBefore): a row's words then begin
// anywhere in 16 bytes, and so does its header, of one or two pairs. One matrix more is loaded. Of each two neighbours
// a lane takes its word of the first if that is one of the row's, else of the second: it is the same for all rows of a
// warp, so that a matrix has all its words, in an order that Q's lanes and the stored outputs follow.
//
// Interface:
//   kIsAligned
//   words_before_header()         words of 16 bytes that come before a warp's rows
//   word_of(lane), half_word_of(lane), channel_of(lane, matrix)   of a matrix the word that a lane has of a row of
//                                 keys, the half of a word of values, and the first of the four channels of that
//   load<kTransposed>(headers, words, stage, lane)   headers and words, as Int4RowsLoads has them
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/types.cuh"
#include "kv_format/kv_int4_rows_loads.cuh"

namespace cubit {

/// kBefore(): so many bytes come before a warp's rows in the 16 in which they begin, the same number for all.
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

  /// Headers of keys have zeros beside them, those of values, whose columns are rows of the product, what else is
  /// there.
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
    // A mask, for of a condition the compiler made a branch.
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

/// Headers are padded with zeros to a multiple of 16 bytes, and rows begin with them.
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
