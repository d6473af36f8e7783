// Layouts of packed 4-bit weights and zeros in a checkpoint, for a thread that has 8 values along k of 8 columns n.
//
// Interface of a packing:
//   store(qweight, words, n, first_n, first_k)  stores the 64 weights; words[i] holds those of column first_n + i, with
//                                               first_k in the low nibble
//   zeros(zeros)                                packs the zeros of eight neighbouring columns, each 0 … 15, into a word
//
// Packings:
//   PackedByK  word (k / 8, n): nibble j is k = 8i + j. The thread stores the words as they are, one 32-byte sector.
//   PackedByN  word (k, n / 8): nibble j is n = 8i + order[j], order = 0, 2, 4, 6, 1, 3, 5, 7. The thread first
//              transposes 8 x 8 nibbles.
#pragma once

#include "core/types.cuh"
#include "kv_format/row_lanes.cuh"

namespace cubit {

struct PackedByK {
  static __device__ __forceinline__ void store(char* qweight, const uint32 (&words)[8], int n, int first_n,
                                               int first_k) {
    char* const dst = qweight + 4 * (static_cast<int64>(first_k / 8) * n + first_n);
    const uint32 low[4] = {words[0], words[1], words[2], words[3]};
    const uint32 high[4] = {words[4], words[5], words[6], words[7]};
    store_global(dst, low);
    store_global(dst + 16, high);
  }
  static __device__ __forceinline__ uint32 zeros(const uint32 (&zeros)[8]) {
    uint32 word = 0;
#pragma unroll
    for (int i = 7; i >= 0; --i) word = 16 * word + zeros[i];
    return word;
  }
};

struct PackedByN {
  static constexpr int kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};

  static __device__ __forceinline__ void store(char* qweight, const uint32 (&words)[8], int n, int first_n,
                                               int first_k) {
    uint32 columns[8] = {words[0], words[2], words[4], words[6], words[1], words[3], words[5], words[7]};
    transpose(columns);
    const int64 row_words = n / 8;
    char* const dst = qweight + 4 * (first_k * row_words + first_n / 8);
#pragma unroll
    for (int i = 0; i < 8; ++i) store_global(dst + 4 * i * row_words, columns[i]);
  }
  static __device__ __forceinline__ uint32 zeros(const uint32 (&zeros)[8]) {
    uint32 word = 0;
#pragma unroll
    for (int i = 7; i >= 0; --i) word = 16 * word + zeros[kOrder[i]];
    return word;
  }

 private:
  /// Transposes 8 x 8 nibbles: nibble j of word i becomes nibble i of word j. Halves are exchanged first, then bytes,
  /// then nibbles.
  static __device__ __forceinline__ void transpose(uint32 (&words)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) exchange(words[i], words[i + 4], 0x5410u, 0x7632u);
#pragma unroll
    for (int i = 0; i < 8; i += i % 4 == 1 ? 3 : 1) exchange(words[i], words[i + 2], 0x6240u, 0x7351u);
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      const uint32 even = (words[i] & 0x0f0f0f0fu) | (words[i + 1] & 0x0f0f0f0fu) << 4;
      words[i + 1] = (words[i] >> 4 & 0x0f0f0f0fu) | (words[i + 1] & 0xf0f0f0f0u);
      words[i] = even;
    }
  }
  static __device__ __forceinline__ void exchange(uint32& low, uint32& high, uint32 to_low, uint32 to_high) {
    const uint32 first = __byte_perm(low, high, to_low);
    high = __byte_perm(low, high, to_high);
    low = first;
  }
};

}  // namespace cubit
