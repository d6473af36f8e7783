// Distribution of rows over threads, and reductions over the threads of a row.
//
// A row has one to 32 warps. Thread t of a row with n threads takes the vectors t, t + n, … of 16 columns each. Rows of
// one or two warps share a block of four warps; a longer row has a block of its own. All rows of a launch have the same
// number of warps. A reduction needs one barrier if that number is above one.
//
// PTX ISA: "shfl.sync", "redux.sync", "bar.sync".
#pragma once

#include "core/types.cuh"
#include "quantisation/quantised_rows.h"

namespace cubit {

inline constexpr int kVectorColumns = 16;  // 32 bytes of input, 16 bytes of quantised output
inline constexpr int kMostRowThreads = 1024;

/// One number for each warp of a block. Each reduction of a kernel needs a RowExchange of its own, because a warp may
/// still read the RowExchange of the previous reduction.
struct RowExchange {
  uint32 values[kMostRowThreads / kWarpSize];
};

class RowThreads {
 public:
  __device__ __forceinline__ explicit RowThreads(const RowShape& shape) : shape_(shape) {
    const int row_in_block = warp_index() >> shape.row_shift;
    first_warp_ = row_in_block << shape.row_shift;
    row_ = static_cast<int64>(blockIdx.x) * rows_per_block() + row_in_block;
    thread_ = static_cast<int>(thread_index()) - first_warp_ * kWarpSize;
  }

  __device__ __forceinline__ int64 row() const { return row_; }
  /// Threads of a row that does not exist take part in barriers, but neither load nor store.
  __device__ __forceinline__ bool exists() const { return row_ < shape_.rows; }
  __device__ __forceinline__ bool is_first() const { return exists() && thread_ == 0; }
  /// The first column of this thread's vector number `i`.
  __device__ __forceinline__ int column(int i) const {
    return (thread_ + i * shape_.row_warps * kWarpSize) * kVectorColumns;
  }
  __device__ __forceinline__ bool has(int i) const { return exists() && column(i) < shape_.columns; }
  __device__ __forceinline__ int columns() const { return shape_.columns; }

  /// Reductions over the threads of each row: the largest of unsigned numbers, and the sum of floats. Every thread
  /// receives its row's result. All threads of the block call these functions. Only the launch decides a sum's order.
  __device__ __forceinline__ uint32 largest(uint32 value, RowExchange& exchange) const {
    return over_row(value, exchange, [](uint32 own) { return largest_of_warp(own); });
  }
  __device__ __forceinline__ float sum(float value, RowExchange& exchange) const {
    return __uint_as_float(over_row(__float_as_uint(value), exchange, [](uint32 own) {
      return by_shuffles(own,
                         [](uint32 a, uint32 b) { return __float_as_uint(__uint_as_float(a) + __uint_as_float(b)); });
    }));
  }

 private:
  __device__ __forceinline__ int rows_per_block() const {
    return shape_.row_shift == kRowPerBlock ? 1 : kSharedBlockWarps >> shape_.row_shift;
  }
  /// Combines a value over the threads of each row by over_warp. A value of 0 must not change over_warp's result.
  template <class OverWarp>
  __device__ __forceinline__ uint32 over_row(uint32 value, RowExchange& exchange, OverWarp over_warp) const {
    value = over_warp(value);
    if (shape_.row_warps == 1) return value;
    const int lane = lane_index();
    if (lane == 0) exchange.values[warp_index()] = value;
    __syncthreads();
    return over_warp(lane < shape_.row_warps ? exchange.values[first_warp_ + lane] : 0u);
  }
  static __device__ __forceinline__ uint32 largest_of_warp(uint32 value) {
#if __CUDA_ARCH__ >= 800
    uint32 largest;
    asm volatile("redux.sync.max.u32 %0, %1, -1;" : "=r"(largest) : "r"(value));
    return largest;
#else
    return by_shuffles(value, [](uint32 a, uint32 b) { return a > b ? a : b; });
#endif
  }
  template <class Combine>
  static __device__ __forceinline__ uint32 by_shuffles(uint32 value, Combine combine) {
#pragma unroll
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
      value = combine(value, __shfl_xor_sync(kFullWarp, value, distance));
    return value;
  }

  RowShape shape_;
  int first_warp_;
  int thread_;
  int64 row_;
};

}  // namespace cubit
