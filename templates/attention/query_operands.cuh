// Where a block's query operands are. A lane has kWords of each head tile, in an order of the number format's.
//
// In registers every warp has them all. In shared memory the block has them once, and a warp loads what it needs when
// it needs it: 16 bytes per lane and load, without conflicts. That is for so many head tiles that registers are full of
// their outputs.
//
// Interface:
//   kIsShared
//   in_block(memory)              none yet; where it goes, if that is shared memory
//   set(tile, made)               of one head tile: words, or in shared memory what is made of it in registers, by one
//                                 warp, and behind the last a barrier of the block
//   get(words, tile, first)       4 words from `first` on, a multiple of 4
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"

namespace cubit {

/// So many words that they come in loads of 16 bytes.
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

/// [tile][word / 4][lane][word % 4].
template <int kTiles, int kWords>
class QueryInSharedMemory {
 public:
  static constexpr bool kIsShared = true;
  static constexpr int kPieces = kWords / 4;  // of a tile, for each lane

  static __device__ __forceinline__ QueryInSharedMemory in_block(uint32 memory) {
    QueryInSharedMemory query;
    query.at_ = settled(memory + 16 * lane_index());
    return query;
  }
  __device__ __forceinline__ void set(int tile, const QueryInRegisters<1, kWords>& made) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      uint32 four[4];
      made.get(four, 0, 4 * piece);
      store_shared(place(tile, piece), four);  // access: stores of queries
    }
  }
  __device__ __forceinline__ void get(uint32 (&words)[4], int tile, int first) const {
    load_shared(words, place(tile, first / 4));  // access: loads of queries
  }

 private:
  __device__ __forceinline__ uint32 place(int tile, int piece) const {
    return at_ + 16 * kWarpSize * (kPieces * tile + piece);
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
