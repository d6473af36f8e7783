// Deferred merge: decides when a block merges its partial results with the other blocks' results. merge_slices.cuh says
// how.
#pragma once

#include "attention/warp_results.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "pipeline/merge_slices.cuh"

namespace cubit {

/// Stores and merges the results of a block's work items; the consumer warps run it. If a sequence is shared with other
/// blocks, its merge is deferred until the next work item's results are stored, because the other blocks' results have
/// arrived by then. The last work item is merged at once. kLoaded is the number of partial results that a thread has in
/// flight.
template <int kLoaded>
class DeferredMerge {
 public:
  /// Initialises shared state. One thread calls the function before the block-wide barrier.
  static __device__ __forceinline__ void begin(StoredResult (&stored)[2]) {
    stored[1] = {{0, 1}, {}};  // no work item precedes the first
  }
  __device__ __forceinline__ DeferredMerge(const GqaDecodeArguments& args, StoredResult (&stored)[2],
                                           const WarpResults& results)
      : args_(args), stored_(stored), results_(results) {}

  /// Stores the results of a work item. The warps' results are in shared memory, and the warps have synchronised.
  __device__ __forceinline__ void store(const StoredResult& own, bool is_last) {
    if (threadIdx.x == 0) stored_[current_] = own;
    const uint64 before_own = store_item_result(args_, own, results_, !is_last);
    current_ ^= 1;
    bool is_own = false;
#pragma unroll 1
    while (true) {
      const StoredResult stored = stored_[current_];
      if (stored.owners.count > 1) {
        merge_partials(args_, stored, before_deferred_, results_, !is_own,
                       [](const PartialResults& partials, int row, int quad) {
                         return kRowsOfWholeWarps ? combine_by_warp<kLoaded>(partials, row, quad)
                                                  : combine<8>(partials, row, quad);
                       });
        sync_warps();  // all results have been read
      }
      before_deferred_ = before_own;
      if (!is_last || is_own) break;
      current_ ^= 1;
      is_own = true;
    }
  }

 private:
  const GqaDecodeArguments& args_;
  StoredResult (&stored_)[2];  // of the current and of the previous work item, alternating
  const WarpResults& results_;
  int current_ = 0;
  uint64 before_deferred_ = 0;  // what store_item_result returned for the previous work item
};

}  // namespace cubit
