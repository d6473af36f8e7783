// Weight operand of bytes [n][k], signed or e4m3, for the loop with mma.sync. The bytes are the A operand as they are.
//
// A stage has a row of 128 bytes for each column of the block, in the order that lanes.h gives. ldmatrix.x4 then loads
// one operand, and a lane has four neighbouring columns of a strip.
//
// Rows of weights are contiguous: k bytes each, a multiple of 16. Interface of a weight operand: see w4_words_by_k.cuh.
#pragma once

#include "byte_gemm/arguments.h"
#include "byte_gemm/lanes.h"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/split_k.cuh"
#include "weight_format/packed_stage_copies.cuh"

// Bytes have no scales or zeros in a stage, but the loop names their places.
namespace plan {
constexpr int kScalesAt = 0;
constexpr int kZerosAt = 0;
}  // namespace plan

namespace cubit {

/// Issues the copies of one stage after another. kAt maps (row, byte) to an offset in the stage.
template <int (*kAt)(int, int), class Block>
class ByteRowCopies {
 public:
  __device__ __forceinline__ ByteRowCopies(const ByteGemmArguments& args, const WorkTile& work_tile,
                                           typename Block::Thread ring_thread)
      : args_(args), column_tile_(work_tile.column_tile) {
    const gemm_lanes::Place own = vector(0, ring_thread.index());
    column_ = byte_lanes::column_of_row(own.row);
    k_ = own.byte;
    src_ = static_cast<const char*>(args.weights) + static_cast<int64>(work_tile.first) * byte_lanes::kStageK + k_;
    place_ = settled(kAt(own.row, own.byte));
  }

  /// Starts the copies of the next stage to address `stage`. kAllK: the stage has all of its values along k; otherwise
  /// it has `k_left`.
  template <bool kAllK>
  __device__ __forceinline__ void fetch(uint32 stage, int k_left) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = vector(i, 0).row;
      const int column = Block::weight_column(args_, column_tile_, column_ + byte_lanes::column_of_row(row));
      const bool valid = column >= 0 && (kAllK || k_ < k_left);
      const char* const src = src_ + max(0, column) * static_cast<int64>(args_.k);
      held_.start(i, stage + place(i), src, valid);  // access: cp.async of words
    }
    src_ += byte_lanes::kStageK;
  }

  /// Stores the vectors of the last fetch() into the stage, if copies are staged through registers.
  __device__ __forceinline__ void store(uint32 stage) const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) held_.store(i, stage + place(i));  // access: stores of words
  }

 private:
  static constexpr int kRowVectors = byte_lanes::kStageK / 16;
  static constexpr int kRowsAtOnce = Block::kThreads / kRowVectors;
  static constexpr int kCopies = Block::kColumns / kRowsAtOnce;
  // A thread's rows are whole groups of 8 rows apart. The distance in the stage and the distance in columns between two
  // copies therefore do not depend on the thread: see place() and fetch().
  static_assert(kRowsAtOnce == 8 || kRowsAtOnce == 16 || kRowsAtOnce == 32);

  static __device__ __forceinline__ constexpr gemm_lanes::Place vector(int i, int thread) {
    return gemm_lanes::copied_vector(i, thread, Block::kThreads, kRowVectors, 16);
  }
  /// Offset in a stage of copy i.
  __device__ __forceinline__ uint32 place(int i) const { return place_ + kAt(vector(i, 0).row, 0); }

  const ByteGemmArguments& args_;
  const char* src_;  // source of the thread's bytes in column 0 of the weights, for the next stage
  uint32 place_;     // offset in a stage of copy 0
  int column_tile_;
  int column_;  // column of copy 0 in the block
  int k_;       // offset in a stage, along k, of the thread's vectors
  typename Block::Copies::template Pieces<16, kCopies> held_;
};

template <int (*kAt)(int, int)>
struct ByteRows {
  using Arguments = ByteGemmArguments;
  static constexpr bool kDequantises = false;
  static constexpr bool kIsOneGroup = false;
  static constexpr bool kStagesFactors = false;
  static constexpr int kStageGroups = 1;
  static constexpr int kZeroBytes = 0;
  struct Zeros {};
  struct Scales {};
  struct FactorPlaces {};
  using Places = uint32;
  template <class Block>
  using WordCopies = ByteRowCopies<kAt, Block>;
  template <class Block>
  using FactorCopies = NoFactorCopies;

  struct Words {
    uint32 of[2][2][4];  ///< [tile of 16 columns][product]
  };

  static constexpr __device__ bool unrolls_groups(int /*row tiles*/) { return true; }
  static __device__ __forceinline__ Places places(int lane, int strip) {
    const gemm_lanes::Place own = byte_lanes::words(lane, strip, 0, 0, 0);
    return settled(kAt(own.row, own.byte));
  }
  static __device__ __forceinline__ FactorPlaces factor_places(int, int) { return {}; }

  /// Layouts are linear over address bits (XOR) within the 128 bytes of a row, and stages begin at multiples of 128.
  static __device__ __forceinline__ void load_words(Words& words, uint32 stage, Places places, int step) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
      for (int product = 0; product < 2; ++product) {
        const gemm_lanes::Place at = byte_lanes::words(0, 0, tile, step, product);
        const uint32 row = ((stage + places) ^ at.byte) + kAt(at.row, 0);
        load_matrices(words.of[tile][product], row);  // access: ldmatrix.x4 of words
      }
    }
  }

  template <int kProduct, int kTile>
  static __device__ __forceinline__ void operand(uint32 (&a)[4], const Words& words, const Zeros&) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = words.of[kTile][kProduct][i];
  }

  static __device__ __forceinline__ void load_zeros(Zeros&, uint32, const FactorPlaces&) {}
  static __device__ __forceinline__ void load_scales(Scales&, uint32, const FactorPlaces&) {}
  template <class Sum>
  static __device__ __forceinline__ void arrange(Sum (&)[2][4]) {}
};

}  // namespace cubit
