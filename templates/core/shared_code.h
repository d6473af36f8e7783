// Functions that the host computes with as kernels do.
#pragma once

#ifdef __CUDACC__
#define CUBIT_SHARED_CODE constexpr __host__ __device__
#else
#define CUBIT_SHARED_CODE constexpr
#endif
