// CUBIT_SHARED_CODE marks constexpr functions that are compiled for the host and for kernels, with equal results.
#pragma once

#ifdef __CUDACC__
#define CUBIT_SHARED_CODE constexpr __host__ __device__
#else
#define CUBIT_SHARED_CODE constexpr
#endif
