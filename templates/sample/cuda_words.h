// Declarations of the CUDA keywords and functions that the templates use, so that clangd needs no CUDA toolkit. NVRTC
// and nvcc have their own declarations and do not read this file. See ../compile_flags.txt.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 {
  unsigned x, y, z;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
__device__ uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w);
__device__ float2 make_float2(float x, float y);
__device__ float4 make_float4(float x, float y, float z, float w);

extern const __device__ uint3 threadIdx, blockIdx, blockDim, gridDim;

__device__ int min(int a, int b);
__device__ unsigned min(unsigned a, unsigned b);
__device__ long long min(long long a, long long b);
__device__ int max(int a, int b);
__device__ long long max(long long a, long long b);
__device__ float fabsf(float x);
__device__ float erff(float x);
__device__ float fmaxf(float a, float b);
__device__ float fminf(float a, float b);
__device__ float __fadd_rn(float a, float b);
__device__ float __fsub_rn(float a, float b);
__device__ float __fmul_rn(float a, float b);
__device__ float __fmaf_rn(float a, float b, float c);
__device__ float __uint_as_float(unsigned bits);
__device__ unsigned __float_as_uint(float x);
__device__ unsigned long long __cvta_generic_to_shared(const void* pointer);
__device__ unsigned __byte_perm(unsigned x, unsigned y, unsigned selector);
__device__ uint4 __ldcs(const uint4* pointer);
__device__ void __stcs(uint4* pointer, uint4 value);
__device__ unsigned atomicXor(unsigned* pointer, unsigned value);

__device__ void __syncthreads();
__device__ void __syncwarp(unsigned lanes = 0xffffffffu);
__device__ int __any_sync(unsigned lanes, int predicate);
template <class T>
__device__ T __shfl_sync(unsigned lanes, T value, int source, int width = 32);
template <class T>
__device__ T __shfl_xor_sync(unsigned lanes, T value, int distance, int width = 32);
