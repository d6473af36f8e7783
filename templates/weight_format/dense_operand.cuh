// Weight operand of the persistent GEMM for weights that wgmma reads from shared memory, as TMA leaves them: fp16 or
// bf16 [n][k] that nobody quantised, and bytes [n][k] (byte_gemm/shared_bytes.cuh).
//
// A stage has 128 rows of 128 bytes (kSlabK values along k) with 128-byte swizzle. Row r of a warpgroup's 64 rows is
// row r of its A operand. One box has all rows. If gated, the map of weights has the dimensions [n / 16][2][8][k]:
// 8 gate features and their 8 up-projection features follow one another, and are the 16 rows of a warp.
//
// Values beyond the end of k are zeros: TMA fills what lies outside the tensor.
//
// Interface of a weight operand: see w4_register_operand.cuh. Consumer warps load and convert nothing.
//
// PTX ISA: "Matrix descriptor", "Strides" of wgmma operands in shared memory.
#pragma once

#include "core/bulk_copies.cuh"
#include "core/types.cuh"
#include "core/wgmma.cuh"
#include "gemm/persistent_gemm_lanes.h"
#include "kernels/gemm/persistent_gemm_arguments.h"
#include "weight_format/feature_tile.cuh"
#include "weight_format/one_unit.cuh"

namespace cubit {

template <bool kGated, int kSlabK = persistent_lanes::kSlabK>
class DenseOperand : public OneUnit {
  static constexpr uint32 kWarpgroupBytes = persistent_lanes::kBlockFeatures / 2 * persistent_lanes::kSlabBytes;

 public:
  using Arguments = PersistentGemmArguments;
  using Features = persistent_lanes::FeaturesInOrder<kGated>;
  using Tile = FeatureTile<kGated>;
  static constexpr uint32 kBytes = 2 * kWarpgroupBytes;

  static __device__ __forceinline__ void load_stage(const PersistentGemmArguments& args, const TensorMap& map,
                                                    uint32 dst, Tile tile, int slab, uint32 barrier) {
    const int k = slab * kSlabK;
    // A box begins inside the tensor. What it holds for features that do not exist is not stored.
    if constexpr (kGated) {
      copy_box_4d(dst, map, k, min(tile.first / 8, args.n / 16 - 1), barrier);
    } else {
      copy_box(dst, map, k, min(tile.first, args.n - 1), barrier);
    }
  }

  static constexpr __device__ __forceinline__ uint32 stage_bytes(const PersistentGemmArguments&, int) { return kBytes; }

  __device__ __forceinline__ DenseOperand(const PersistentGemmArguments&, Tile, int, uint32)
      : rows_at_(warp_index() / 4 * kWarpgroupBytes) {}

  struct Words {
    uint32 rows;  ///< address of the warpgroup's rows
  };
  __device__ __forceinline__ void load(Words& words, uint32 stage) const { words.rows = stage + rows_at_; }

  /// The products of the slab before have been started, which do not need their descriptor any more. The shuffle shows
  /// the compiler that the address is equal in all lanes, which matrix descriptors require.
  template <int kBuffer>
  __device__ __forceinline__ void convert(const Words& words) {
    rows_ = describe_rows_of_128(__shfl_sync(kFullWarp, words.rows, 0));
  }
  template <int kBuffer>
  __device__ __forceinline__ uint64 operand(int step) const {
    constexpr uint64 kStepOffset = 32 / 16;
    return rows_ + step * kStepOffset;
  }

 private:
  uint32 rows_at_;  ///< offset in a stage
  uint64 rows_;     ///< descriptor of the current slab's rows
};

}  // namespace cubit
