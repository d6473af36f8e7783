// Storage of a block's query operands, in registers or in shared memory. A lane has kWords words of each head tile, in
// an order that the number format defines.
//
// In registers, every warp holds all operands. In shared memory, the block holds the operands once, and each warp loads
// what it needs at the time of use: 16 bytes per lane and load, without bank conflicts. Shared memory serves plans with
// so many head tiles that the outputs fill the registers.
//
// Interface:
//   kIsShared                     true for shared memory
//   in_block(memory)              returns an empty object; `memory` is the place of the operands if they are shared
//   set(tile, made)               stores the operands of one head tile. `made` is an array of words, or, for shared
//                                 memory, the operand object that one warp made in registers; after the last tile the
//                                 block needs a barrier
//   get(words, tile, first)       loads 4 words from `first` on; `first` is a multiple of 4
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"

namespace cubit {

/// Number of words rounded up to loads of 16 bytes.
constexpr __device__ int padded_query_words(int words) { return (words + 3) / 4 * 4; }

template <int kTiles, int kWords>
class QueryInRegisters {
 public:
  static constexpr bool kIsShared = false;

  static __device__ __forceinline__ QueryInRegisters in_block(uint32) { return {}; }
  __device__ __forceinline__ void set(int tile, const uint32 (&words)[kWords]) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words_[tile][i] = words[i];
  }
  __device__ __forceinline__ void get(uint32 (&words)[4], int tile, int first) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = words_[tile][first + i];
  }

 private:
  uint32 words_[kTiles][kWords];
};

/// Layout: [tile][word / 4][lane][word % 4].
template <int kTiles, int kWords>
class QueryInSharedMemory {
 public:
  static constexpr bool kIsShared = true;
  static constexpr int kVectors = kWords / 4;  // 16-byte vectors of a tile, per lane

  static __device__ __forceinline__ QueryInSharedMemory in_block(uint32 memory) {
    QueryInSharedMemory query;
    query.at_ = settled(memory + 16 * lane_index());
    return query;
  }
  __device__ __forceinline__ void set(int tile, const QueryInRegisters<1, kWords>& made) {
#pragma unroll
    for (int vector = 0; vector < kVectors; ++vector) {
      uint32 four[4];
      made.get(four, 0, 4 * vector);
      store_shared(place(tile, vector), four);  // access: stores of queries
    }
  }
  __device__ __forceinline__ void get(uint32 (&words)[4], int tile, int first) const {
    load_shared(words, place(tile, first / 4));  // access: loads of queries
  }

 private:
  __device__ __forceinline__ uint32 place(int tile, int vector) const {
    return at_ + 16 * kWarpSize * (kVectors * tile + vector);
  }

  uint32 at_;
};

template <bool kIsShared, int kTiles, int kWords>
struct ChooseQuery {
  using Type = QueryInRegisters<kTiles, kWords>;
};
template <int kTiles, int kWords>
struct ChooseQuery<true, kTiles, kWords> {
  using Type = QueryInSharedMemory<kTiles, kWords>;
};

}  // namespace cubit
