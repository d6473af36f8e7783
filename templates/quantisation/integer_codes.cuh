// Vectors of integers that are dequantised. Interface:
//   kColumns   columns of a vector
//   kBytes     bytes of an integer
//   load(…)    loads the vector; zeros if it does not exist
//   [i]        the integer of column i as a float
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"

namespace cubit {

/// Eight codes of int8.
struct Int8Vector {
  static constexpr int kColumns = 8;
  static constexpr int kBytes = 1;

  uint32 words[2];

  __device__ __forceinline__ void load(const char* src, bool exists) { load_global<2, 8>(words, src, exists); }
  __device__ __forceinline__ float operator[](int i) const {
    const int byte = static_cast<int>(words[i / 4] << (24 - 8 * (i % 4))) >> 24;
    return static_cast<float>(byte);
  }
};

/// Eight sums of int32. A sum beyond 2^24 is rounded to a float.
struct Int32Vector {
  static constexpr int kColumns = 8;
  static constexpr int kBytes = 4;

  uint32 words[8];

  __device__ __forceinline__ void load(const char* src, bool exists) { load_global<8, 16>(words, src, exists); }
  __device__ __forceinline__ float operator[](int i) const { return static_cast<float>(static_cast<int>(words[i])); }
};

}  // namespace cubit
