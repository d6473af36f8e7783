// Data movement: global to shared memory (cp.async), shared memory to fragments (ldmatrix), vector loads and stores.
//
// PTX ISA: "Data Movement and Conversion Instructions": cp.async, ldmatrix, ld, st.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Byte address in the shared window, the form that copy and matrix instructions take.
__device__ __forceinline__ uint32 shared_address(const void* pointer) {
  return static_cast<uint32>(__cvta_generic_to_shared(pointer));
}

/// Starts a cp.async copy of kBytes bytes: 4, 8 or 16. Both addresses must be aligned to kBytes.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint32 dst, const void* src) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(dst), "l"(src), "n"(kBytes) : "memory");
  }
}

/// Starts a cp.async copy of kBytes bytes. If `valid` is false, the copy writes zeros and does not read `src`.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint32 dst, const void* src, bool valid) {
  const int size = valid ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(size) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(dst), "l"(src), "n"(kBytes), "r"(size)
                 : "memory");
  }
}

/// Starts a 16-byte cp.async copy of which only the first `size` bytes are read; the remaining bytes become zeros.
__device__ __forceinline__ void copy_async_first(uint32 dst, const void* src, int size) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(size) : "memory");
}

/// Closes the group of cp.async copies that this thread has issued since the last commit.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most kPending of this thread's newest groups are unfinished. The copies of other threads need a
/// barrier as well.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Loads 8 × 8 matrices of 16-bit values (ldmatrix). Lanes 8i … 8i+7 give the row addresses of matrix i. Lane (r, c)
/// receives the pair (row r, columns 2c and 2c+1) of each matrix; with transposition the pair is (rows 2c and 2c+1,
/// column r).
__device__ __forceinline__ void load_matrices(uint32 (&dst)[2], uint32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(dst[0]), "=r"(dst[1])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void load_matrices(uint32 (&dst)[4], uint32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(dst[0]), "=r"(dst[1]), "=r"(dst[2]), "=r"(dst[3])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32 (&dst)[2], uint32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(dst[0]), "=r"(dst[1])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32 (&dst)[4], uint32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(dst[0]), "=r"(dst[1]), "=r"(dst[2]), "=r"(dst[3])
               : "r"(row)
               : "memory");
}

/// Loads kWords consecutive 32-bit words (1, 2, 4 or 8) from shared memory. The address must be a multiple of 4 bytes
/// for 1 word, of 8 bytes for 2 words, and of 16 bytes for 4 and 8 words.
template <int kWords>
__device__ __forceinline__ void load_shared(uint32 (&dst)[kWords], uint32 address) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4 || kWords == 8);
  if constexpr (kWords == 1) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(dst[0]) : "r"(address) : "memory");
  } else if constexpr (kWords == 2) {
    asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];" : "=r"(dst[0]), "=r"(dst[1]) : "r"(address) : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(dst[i]), "=r"(dst[i + 1]), "=r"(dst[i + 2]), "=r"(dst[i + 3])
                   : "r"(address + 4 * i)
                   : "memory");
    }
  }
}

/// Loads four words from shared memory on every call. ptxas merges equal loads from one address; a volatile load is
/// never merged.
__device__ __forceinline__ void load_shared_again(uint32 (&dst)[4], uint32 address) {
  asm volatile("ld.volatile.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(dst[0]), "=r"(dst[1]), "=r"(dst[2]), "=r"(dst[3])
               : "r"(address)
               : "memory");
}

/// Loads four floats from shared memory with one instruction.
__device__ __forceinline__ void load_shared(float (&dst)[4], uint32 address) {
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(dst[0]), "=f"(dst[1]), "=f"(dst[2]), "=f"(dst[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ float2 load_shared2(uint32 address) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ float4 load_shared4(uint32 address) {
  float4 value;
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

__device__ __forceinline__ void store_shared_word(uint32 address, uint32 word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

/// Stores 2 bytes to shared memory.
__device__ __forceinline__ void store_shared_half(uint32 address, uint16 half) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(half) : "memory");
}

/// Stores kWords words (1, 2 or 4) to shared memory; the address must be a multiple of the words' total size.
template <int kWords>
__device__ __forceinline__ void store_shared(uint32 address, const uint32 (&words)[kWords]) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 1) {
    store_shared_word(address, words[0]);
  } else if constexpr (kWords == 2) {
    asm volatile("st.shared.v2.b32 [%0], {%1,%2};" ::"r"(address), "r"(words[0]), "r"(words[1]) : "memory");
  } else {
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
  }
}

/// Stores four floats with one instruction. The compiler may split a float4 that is stored through a pointer.
__device__ __forceinline__ void store_shared(uint32 address, float4 value) {
  asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(address), "f"(value.x), "f"(value.y), "f"(value.z),
               "f"(value.w)
               : "memory");
}

__device__ __forceinline__ void store_shared(uint32 address, float2 value) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(address), "f"(value.x), "f"(value.y) : "memory");
}

/// Loads kWords words of global memory that nothing writes while the kernel runs (ld.global.nc), with the widest
/// vectors that an alignment of kAlignment bytes allows.
template <int kWords, int kAlignment>
__device__ __forceinline__ void load_global(uint32 (&dst)[kWords], const void* src) {
  const uint32* words = static_cast<const uint32*>(src);
  if constexpr (kWords % 4 == 0 && kAlignment >= 16) {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      asm volatile("ld.global.nc.v4.b32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(dst[i]), "=r"(dst[i + 1]), "=r"(dst[i + 2]), "=r"(dst[i + 3])
                   : "l"(words + i));
    }
  } else if constexpr (kWords % 2 == 0 && kAlignment >= 8) {
#pragma unroll
    for (int i = 0; i < kWords; i += 2) {
      asm volatile("ld.global.nc.v2.b32 {%0,%1}, [%2];" : "=r"(dst[i]), "=r"(dst[i + 1]) : "l"(words + i));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i) asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(dst[i]) : "l"(words + i));
  }
}

/// Loads kWords words of global memory as the function above does. If `valid` is false, the result is zeros and `src`
/// is not read.
template <int kWords, int kAlignment>
__device__ __forceinline__ void load_global(uint32 (&dst)[kWords], const void* src, bool valid) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) dst[i] = 0;
  if (valid) load_global<kWords, kAlignment>(dst, src);
}

/// Stores two words to global memory, with one instruction if kAlignment is at least 8.
template <int kAlignment>
__device__ __forceinline__ void store_global(void* dst, uint32 first, uint32 second) {
  if constexpr (kAlignment >= 8) {
    asm volatile("st.global.v2.b32 [%0], {%1,%2};" ::"l"(dst), "r"(first), "r"(second) : "memory");
  } else {
    uint32* words = static_cast<uint32*>(dst);
    words[0] = first;
    words[1] = second;
  }
}

/// Stores 16 bytes to global memory; `dst` must be aligned to 16 bytes.
__device__ __forceinline__ void store_global(void* dst, const uint32 (&words)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(dst), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}

/// Loads partial results that other blocks have stored. The volatile load bypasses the L1 cache, which is not coherent.
__device__ __forceinline__ float4 load_partial4(const char* src) {
  float4 value;
  asm volatile("ld.volatile.global.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(src)
               : "memory");
  return value;
}
/// Loads four floats that other blocks have stored, with the scope of this GPU (ld.relaxed.gpu). The volatile loads
/// load_partial4 and load_partial2 have system scope, which costs more; the attention merge can afford that.
__device__ __forceinline__ float4 load_other_blocks(const char* src) {
  float4 value;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(src)
               : "memory");
  return value;
}
__device__ __forceinline__ float2 load_partial2(const char* src) {
  float2 value;
  asm volatile("ld.volatile.global.v2.f32 {%0,%1}, [%2];" : "=f"(value.x), "=f"(value.y) : "l"(src) : "memory");
  return value;
}

}  // namespace cubit
