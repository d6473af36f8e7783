// When a block's results are merged with those of the other blocks of a sequence: late, when they have arrived. How:
// merge_slices.cuh.
#pragma once

#include "attention/gqa_decode_block.cuh"
#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"
#include "pipeline/merge_slices.cuh"

namespace cubit {

/// What becomes of the results of a block's segments, by the warps that attend. Those of a sequence that other blocks
/// have parts of are merged when the next segment's are stored, by when the others have arrived; of the last segment at
/// once. kLoaded: parts that a thread has under way.
template <int kLoaded>
class LateMerges {
 public:
  /// By one thread, before the block meets.
  static __device__ __forceinline__ void begin(StoredPart (&parts)[2]) {
    parts[1] = {{0, 1}, {}};  // there is none before the first
  }
  __device__ __forceinline__ LateMerges(const GqaDecodeArguments& args, StoredPart (&parts)[2],
                                        const WarpResults& results)
      : args_(args), parts_(parts), results_(results) {}

  /// Of a segment; the warps' results are stored, and the warps have met.
  __device__ __forceinline__ void store(const StoredPart& own, bool is_last) {
    if (threadIdx.x == 0) parts_[turn_] = own;
    const uint64 before_own = store_part(args_, own, results_, !is_last);
    turn_ ^= 1;
    bool is_own = false;
#pragma unroll 1
    while (true) {
      const StoredPart part = parts_[turn_];
      if (part.owners.count > 1) {
        merge_parts(args_, part, before_late_, results_, !is_own, [](const Parts& parts, int row, int quad) {
          return kRowsOfWholeWarps ? combine_by_warp<kLoaded>(parts, row, quad) : combine<8>(parts, row, quad);
        });
        sync_warps();  // the results are read
      }
      before_late_ = before_own;
      if (!is_last || is_own) break;
      turn_ ^= 1;
      is_own = true;
    }
  }

 private:
  const GqaDecodeArguments& args_;
  StoredPart (&parts_)[2];  // of a segment and of the one before, by turns
  const WarpResults& results_;
  int turn_ = 0;
  uint64 before_late_ = 0;  // what store_part returned of the segment before
};

}  // namespace cubit
