// Layouts of matrices of bytes as threads see them: patches of four rows and 16 columns.
//
// The rows of a patch are 8 R + p + 2 i, i = 0 … 3, of one parity p. In every layout a patch is four vectors, each of
// 16 contiguous bytes:
//   kHoldsRows true    vector i has the 16 columns of row i
//   kHoldsRows false   vector i has the columns 4 i … 4 i + 3 of all four rows
// offset(stride, patch, i) is the byte offset of vector i. `stride` is the distance between rows, or between blocks of
// 32 columns. The formulas are those of <cubit/matrix_layout.hpp>, solved for a vector.
//
// Where kHoldsRows is false, neighbouring lanes swap vectors before they store them, so that two lanes together fill a
// sector of 32 bytes: swap(vectors, patch), and then stored_offset(stride, patch, i) for vector i.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"

namespace cubit {

inline constexpr int kPatchVectors = 4;

/// The place of patch `index`. Two patches cover the 32 columns of a block for the even rows of a group of 8 rows, and
/// the next two cover the odd rows. The next block of 32 columns follows, and after the last block the next group.
class LayoutPatch {
 public:
  __device__ __forceinline__ LayoutPatch(int64 index, int blocks)
      : half_(static_cast<int>(index % 2)), parity_(static_cast<int>(index / 2 % 2)) {
    const uint32 tile = static_cast<uint32>(index / 4);
    group_ = tile / static_cast<uint32>(blocks);
    block_ = tile % static_cast<uint32>(blocks);
  }

  __device__ __forceinline__ int64 group() const { return group_; }
  __device__ __forceinline__ int64 block() const { return block_; }
  __device__ __forceinline__ int parity() const { return parity_; }
  __device__ __forceinline__ int half() const { return half_; }
  __device__ __forceinline__ int64 row(int i) const { return 8 * group() + parity_ + 2 * i; }

 private:
  int half_;
  int parity_;
  uint32 group_;
  uint32 block_;
};

/// Row-major.
struct RowPatches {
  static constexpr bool kHoldsRows = true;
  static __device__ __forceinline__ int64 offset(long long stride, const LayoutPatch& patch, int i) {
    return patch.row(i) * stride + 32 * patch.block() + 16 * patch.half();
  }
};

/// COL32: 32 bytes of each row of a block.
struct Col32Patches {
  static constexpr bool kHoldsRows = true;
  static __device__ __forceinline__ int64 offset(long long stride, const LayoutPatch& patch, int i) {
    return patch.block() * stride + 32 * patch.row(i) + 16 * patch.half();
  }
};

/// COL32_2R_4R4: 32 bytes of each row; 1024 bytes hold 32 rows of a block, not in ascending order.
struct Col32RowsPatches {
  static constexpr bool kHoldsRows = true;
  static __device__ __forceinline__ int64 offset(long long stride, const LayoutPatch& patch, int i) {
    return patch.block() * stride + 1024 * (patch.group() / 4) + 256 * i + 64 * (patch.group() % 4) +
           32 * patch.parity() + 16 * patch.half();
  }
};

/// COL4_4R2_8C: 256 bytes hold 8 rows; 16 bytes hold four columns of four rows of one parity.
struct Col4Patches {
  static constexpr bool kHoldsRows = false;
  static __device__ __forceinline__ int64 offset(long long stride, const LayoutPatch& patch, int i) {
    return region(stride, patch, patch.half()) + 16 * i;
  }
  /// Gives two neighbouring lanes vectors of both lanes' patches: the first lane the even vectors, the second lane the
  /// odd ones. After that vectors 0 and 2 are of the first patch.
  static __device__ __forceinline__ void swap(uint32 (&vectors)[kPatchVectors][4], const LayoutPatch& patch) {
    const bool is_first = patch.half() == 0;
#pragma unroll
    for (int i = 0; i < kPatchVectors; i += 2) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        uint32& even = vectors[i][word];
        uint32& odd = vectors[i + 1][word];
        const uint32 received = __shfl_xor_sync(kFullWarp, is_first ? odd : even, 1);
        (is_first ? odd : even) = received;
      }
    }
  }
  static __device__ __forceinline__ int64 stored_offset(long long stride, const LayoutPatch& patch, int i) {
    return region(stride, patch, i % 2) + 16 * (i / 2 * 2 + patch.half());
  }

 private:
  static __device__ __forceinline__ int64 region(long long stride, const LayoutPatch& patch, int half) {
    return patch.block() * stride + 256 * patch.group() + 128 * patch.parity() + 64 * half;
  }
};

/// Stores the vectors of a patch. Rows from `rows` on are not stored.
template <class Layout>
__device__ __forceinline__ void store_patch(char* dst, int64 stride, const LayoutPatch& patch, int64 rows,
                                            uint32 (&vectors)[kPatchVectors][4]) {
  if constexpr (!Layout::kHoldsRows) Layout::swap(vectors, patch);
#pragma unroll
  for (int i = 0; i < kPatchVectors; ++i) {
    if (patch.row(i) >= rows) continue;
    if constexpr (Layout::kHoldsRows) {
      store_global(dst + Layout::offset(stride, patch, i), vectors[i]);
    } else {
      store_global(dst + Layout::stored_offset(stride, patch, i), vectors[i]);
    }
  }
}

}  // namespace cubit
