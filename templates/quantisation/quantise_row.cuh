// Quantises a row that is in registers, and stores the row, with its scale if the kernel writes scales.
#pragma once

#include "quantisation/quantised_rows.h"
#include "quantisation/row_threads.cuh"
#include "quantisation/row_values.cuh"

namespace cubit {

/// Stores `row`, quantised unless Scaling is Unquantised. All threads of the block call the function together.
template <class Scaling, class Layout, class Element>
__device__ __forceinline__ void quantise_row(const QuantisedRows& result, const RowValues<Element>& row,
                                             const RowThreads& threads) {
  if constexpr (kSameType<Scaling, Unquantised>) {
    store_row(result.output + threads.row() * result.stride, row, threads);
    return;
  } else {
    Scaling scaling;
    if constexpr (Scaling::kReadsRow) {
#pragma unroll
      for (int i = 0; i < kRowVectors; ++i) {
        if (!threads.has(i)) continue;
#pragma unroll
        for (int word = 0; word < kVectorWords; ++word) scaling.template take<Element>(row.vectors[i].words[word]);
      }
      scaling.template reduce<Element>(threads);
    }
    scaling.find(result, threads);
#pragma unroll
    for (int i = 0; i < kRowVectors; ++i) {
      if (!threads.has(i)) continue;
      uint32 words[kVectorColumns / 4];
#pragma unroll
      for (int word = 0; word < kVectorColumns / 4; ++word) {
        float values[4];
#pragma unroll
        for (int column = 0; column < 4; ++column) values[column] = row.vectors[i][4 * word + column];
        words[word] = scaling.encode(values);
      }
      store_global(result.output + Layout::offset(result.stride, threads.row(), threads.column(i)), words);
    }
  }
}

}  // namespace cubit
