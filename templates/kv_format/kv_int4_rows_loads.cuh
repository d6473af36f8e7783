// Loads of words and headers of int4_rows from the rows of a stage: keys untransposed, values transposed. As in
// mma.cuh, r is lane / 4 and c is lane % 4. Whole warps call all functions.
//
// PTX ISA: "ldmatrix".
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/copies.cuh"
#include "core/mma.cuh"
#include "core/types.cuh"

namespace cubit {

/// kAddress(row, byte) is the offset of a byte in a stage. With kRecomputesLanes, each use of an address computes it
/// again.
template <class Shape, int (*kAddress)(int, int), bool kRecomputesLanes>
struct Int4RowsLoads {
  /// Number of header pairs per load.
  static constexpr int kPairsPerLoad = Shape::kGroups < 4 ? Shape::kGroups : 4;

  static __device__ __forceinline__ int address(lanes::Place place) { return kAddress(place.row, place.byte); }
  static constexpr __device__ int first_row(bool of_values) { return of_values ? lanes::kTileRows : 0; }

  /// Loads words[matrix]: element 0 has rows 0-7 and element 1 has rows 8-15. Untransposed, the elements of lane (r, c)
  /// are word c of rows r and r + 8. Transposed, element 0 is half word r of rows 2c and 2c + 1, and element 1 is the
  /// same of rows 2c + 8 and 2c + 9.
  template <bool kTransposed>
  static __device__ __forceinline__ void load_words(uint32 (&words)[Shape::kMatrices][2], uint32 stage, int lane) {
#pragma unroll
    for (int matrix = 0; matrix < Shape::kMatrices; matrix += 2) load_two<kTransposed>(words, stage, lane, matrix);
  }

  /// Loads the words of matrix `matrix` and of the next matrix, or of the last matrix alone.
  template <bool kTransposed>
  static __device__ __forceinline__ void load_two(uint32 (&words)[Shape::kMatrices][2], uint32 stage, int lane,
                                                  int matrix) {
    constexpr int kStart = Shape::kWordsStart;
    constexpr int kFirstRow = first_row(kTransposed);
    if (matrix + 1 < Shape::kMatrices) {
      load_pair<kTransposed>(words, matrix, stage + address(lanes::int4_words(lane, matrix, kStart, kFirstRow)));
    } else {
      load_last<kTransposed>(words[matrix], stage + address(lanes::int4_last_words(lane, matrix, kStart, kFirstRow)));
    }
  }

  /// Loads two matrices with ldmatrix.x4. `row` is the address that the lane gives: a row of matrix `matrix` in lanes
  /// 0-15 and a row of the next matrix in lanes 16-31.
  template <bool kTransposed, int kCount>
  static __device__ __forceinline__ void load_pair(uint32 (&words)[kCount][2], int matrix, uint32 row) {
    uint32 loaded[4];
    if constexpr (kTransposed) {
      load_matrices_transposed(loaded, row);  // access: ldmatrix.x4.trans of value words
    } else {
      load_matrices(loaded, row);  // access: ldmatrix.x4 of key words
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) words[matrix + i / 2][i % 2] = loaded[i];
  }
  template <bool kTransposed>
  static __device__ __forceinline__ void load_last(uint32 (&words)[2], uint32 row) {
    if constexpr (kTransposed) {
      load_matrices_transposed(words, row);  // access: ldmatrix.x2.trans of the last value words
    } else {
      load_matrices(words, row);  // access: ldmatrix.x2 of the last key words
    }
  }

  /// Loads headers as matrices of fp16 values, scale and shift alternating. A chunk is 8 values of a header. Element 0
  /// of headers[chunk] has rows 0-7, and element 1 has rows 8-15; lane (r, c) has values 2c and 2c + 1 of row r, or
  /// transposed value r of rows 2c and 2c + 1.
  template <bool kTransposed>
  static __device__ __forceinline__ void load_header_matrices(uint32 (&headers)[Shape::kHeaderChunks][2],
                                                              uint32 stage) {
    const int lane = lane_index<kRecomputesLanes>();
#pragma unroll
    for (int chunk = 0; chunk < Shape::kHeaderChunks; ++chunk) {
      const uint32 row = stage + address(lanes::int4_header_matrices(lane, chunk, first_row(kTransposed)));
      if constexpr (kTransposed) {
        load_matrices_transposed(headers[chunk], row);  // access: ldmatrix.x2.trans of value headers
      } else {
        load_matrices(headers[chunk], row);  // access: ldmatrix.x2 of key headers
      }
    }
  }

  /// Loads the (scale, shift) pairs of rows r and r + 8, counted from `first_row`.
  static __device__ __forceinline__ void load_headers(uint32 (&pairs)[2][Shape::kGroups], uint32 stage, int first_row) {
    const int lane = lane_index<kRecomputesLanes>();
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int first = 0; first < Shape::kGroups; first += kPairsPerLoad) {
        uint32 words[kPairsPerLoad];
        load_shared(words, stage + address(lanes::int4_header_pairs(lane, row, first, first_row)));
#pragma unroll
        for (int i = 0; i < kPairsPerLoad; ++i) pairs[row][first + i] = words[i];
      }
    }
  }

  /// Loads the scales of value rows in the order of the products' k dimension: pairs[0][group] has the scales of rows
  /// 2c and 2c + 1, and pairs[1][group] the scales of rows 2c + 8 and 2c + 9.
  static __device__ __forceinline__ void load_transposed_scales(uint32 (&pairs)[2][Shape::kGroups], uint32 stage) {
    const int lane = lane_index<kRecomputesLanes>();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int first = 0; first < Shape::kGroups; first += kPairsPerLoad) {
        uint32 even[kPairsPerLoad];
        uint32 odd[kPairsPerLoad];
        const uint32 row = stage + address(lanes::int4_token_pairs(lane, 2 * half, first, first_row(true)));
        const uint32 next_row = stage + address(lanes::int4_token_pairs(lane, 2 * half + 1, first, first_row(true)));
        load_shared(even, row);      // access: loads of value scales
        load_shared(odd, next_row);  // access: loads of value scales
#pragma unroll
        for (int i = 0; i < kPairsPerLoad; ++i) pairs[half][first + i] = __byte_perm(even[i], odd[i], 0x5410);
      }
    }
  }

  /// Zeroes the padding behind the headers of 16 rows from `first_row` on. Copies never write the padding, but the
  /// products with headers read whole chunks of 16 bytes.
  static __device__ __forceinline__ void clear_padding(uint32 stage, int first_row) {
    constexpr int kPaddingWords = (Shape::kWordsStart - Shape::kHeaderBytes) / 4;
    if constexpr (kPaddingWords > 0) {
      const int lane = lane_index<kRecomputesLanes>();
      if (lane / 8 >= kPaddingWords) return;
#pragma unroll
      for (int row = first_row; row < first_row + lanes::kTileRows; row += 8) {
        const uint32 at = stage + address(lanes::int4_padding(lane, row, Shape::kHeaderBytes));
        store_shared_word(at, 0);  // access: zeros next to headers
      }
    }
  }
};

}  // namespace cubit
