// Cache row format bf16 or fp16: rows are stored unchanged, 16 bytes per lane.
//
// Interface of a row format, for one of the kRowLanes lanes of a row:
//   kHasScales                                       whether scales are a separate tensor; `scales` then points to this
//                                                    row's scales
//   store<Source>(row, scales, lane, words, stored)  stores channels given as pairs of 16-bit values of type Source
//   store(row, scales, lane, values, stored)         stores channels given as floats, rounded to nearest even
//   load<Result>(words, row, scales, lane)           loads the lane's channels as pairs of 16-bit values of type Result
// All lanes of a warp call store() together. `stored` says whether this lane's part of the row exists; if not, nothing
// is written.
#pragma once

#include "core/types.cuh"
#include "kv_format/row_lanes.cuh"

namespace cubit {

template <class Element>
class Row16 {
 public:
  static constexpr bool kHasScales = false;

  template <class Source>
  static __device__ __forceinline__ void store(char* row, char*, int lane, const uint32 (&words)[4], bool stored) {
    if constexpr (kSameType<Source, Element>) {
      if (stored) store_global(row + 16 * lane, words);
    } else {
      float values[kLaneChannels];
      widen<Source>(values, words);
      store(row, nullptr, lane, values, stored);
    }
  }

  static __device__ __forceinline__ void store(char* row, char*, int lane, const float (&values)[kLaneChannels],
                                               bool stored) {
    uint32 words[4];
    narrow<Element>(words, values);
    if (stored) store_global(row + 16 * lane, words);
  }

  template <class Result>
  static __device__ __forceinline__ void load(uint32 (&words)[4], const char* row, const char*, int lane) {
    load_global<4, 16>(words, row + 16 * lane);
    if constexpr (kSameType<Result, Element>) return;
    float values[kLaneChannels];
    widen<Element>(values, words);
    narrow<Result>(words, values);
  }
};

}  // namespace cubit
