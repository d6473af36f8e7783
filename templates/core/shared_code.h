// CUBIT_SHARED_CODE marks functions that the host and the kernels compute alike.
#pragma once

#ifdef __CUDACC__
#define CUBIT_SHARED_CODE constexpr __host__ __device__
#else
#define CUBIT_SHARED_CODE constexpr
#endif
