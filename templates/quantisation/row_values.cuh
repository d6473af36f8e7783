// A thread's part of a row in registers: pairs of 16-bit values, up to four vectors of 16 columns.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "quantisation/row_threads.cuh"

namespace cubit {

inline constexpr int kRowVectors = 4;  // vectors of a thread; 1024 threads have 65536 columns
inline constexpr int kVectorWords = kVectorColumns / 2;

/// One vector of 16 columns.
template <class Element>
struct RowVector {
  uint32 words[kVectorWords];

  /// `exists` false: the vector becomes zeros.
  __device__ __forceinline__ void load(const char* src, bool exists) {
    load_global<kVectorWords, 16>(words, src, exists);
  }
  /// Loads a vector that this thread may overwrite later. Such memory must not be read by ld.global.nc.
  __device__ __forceinline__ void load_writable(const char* src, bool exists) {
#pragma unroll
    for (int i = 0; i < kVectorWords; ++i) words[i] = 0;
    if (!exists) return;
#pragma unroll
    for (int i = 0; i < kVectorWords; i += 4) {
      asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(words[i]), "=r"(words[i + 1]), "=r"(words[i + 2]), "=r"(words[i + 3])
                   : "l"(src + 4 * i)
                   : "memory");
    }
  }
  __device__ __forceinline__ float operator[](int i) const {
    return i % 2 == 0 ? Pair<Element>::low(words[i / 2]) : Pair<Element>::high(words[i / 2]);
  }
  __device__ __forceinline__ void store(char* dst) const {
#pragma unroll
    for (int i = 0; i < kVectorWords; i += 4) {
      const uint32 quad[4] = {words[i], words[i + 1], words[i + 2], words[i + 3]};
      store_global(dst + 4 * i, quad);
    }
  }
};

template <class Element>
struct RowValues {
  RowVector<Element> vectors[kRowVectors];

  /// `row` is the address of the row's first column.
  __device__ __forceinline__ void load(const char* row, const RowThreads& threads) {
#pragma unroll
    for (int i = 0; i < kRowVectors; ++i) vectors[i].load(row + 2 * threads.column(i), threads.has(i));
  }
  /// Loads a row that this thread may overwrite later.
  __device__ __forceinline__ void load_writable(const char* row, const RowThreads& threads) {
#pragma unroll
    for (int i = 0; i < kRowVectors; ++i) vectors[i].load_writable(row + 2 * threads.column(i), threads.has(i));
  }
};

/// Stores a row; `dst` is the address of its first column.
template <class Element>
__device__ __forceinline__ void store_row(char* dst, const RowValues<Element>& row, const RowThreads& threads) {
#pragma unroll
  for (int i = 0; i < kRowVectors; ++i) {
    if (threads.has(i)) row.vectors[i].store(dst + 2 * threads.column(i));
  }
}

/// Replaces each value x of a vector by combine(x, y), rounded to 16 bits, where y is the value of `other` at the same
/// place.
template <class Element, class Combine>
__device__ __forceinline__ void combine_vector(RowVector<Element>& vector, const RowVector<Element>& other,
                                               Combine combine) {
#pragma unroll
  for (int word = 0; word < kVectorWords; ++word) {
    uint32& pair = vector.words[word];
    const float low = combine(Pair<Element>::low(pair), Pair<Element>::low(other.words[word]));
    pair = Pair<Element>::pack(low, combine(Pair<Element>::high(pair), Pair<Element>::high(other.words[word])));
  }
}

}  // namespace cubit
