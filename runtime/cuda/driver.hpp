// The CUDA driver API, opened at run time. Building cubit needs no toolkit, header or library of NVIDIA.
//
// This file declares the types, constants and prototypes that cubit uses, after the "CUDA Driver API" manual. Every
// function is one line of CUBIT_CUDA_FUNCTIONS. The version number on the line selects the entry point with exactly
// this prototype, so a later driver with other defaults cannot change which function is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cubit::runtime::cuda {

using Result = int;
using DeviceHandle = int;
using Address = unsigned long long;
using Context = struct ContextTag*;
using DriverStream = struct StreamTag*;
using Event = struct EventTag*;
using Function = struct FunctionTag*;
using Library = struct LibraryTag*;
using DriverKernel = struct KernelTag*;
using DriverGraph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;

/// CUresult values that cubit distinguishes.
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kStreamCaptureImplicit = 906;

/// CUdevice_attribute values.
inline constexpr int kClockRate = 13;
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kMemoryClockRate = 36;
inline constexpr int kGlobalMemoryBusWidth = 37;
inline constexpr int kL2CacheSize = 38;
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;

/// CUfunction_attribute values.
inline constexpr int kMaxDynamicSharedSizeBytes = 8;
inline constexpr int kNonPortableClusterSizeAllowed = 14;

/// CUlaunchAttributeID values.
inline constexpr int kClusterDimension = 4;
inline constexpr int kProgrammaticStreamSerialization = 6;

/// CUlaunchAttribute. The value is a union of 64 bytes; a cluster size uses the first three words and a flag uses the
/// first word.
struct LaunchAttribute {
  alignas(8) int id = 0;
  alignas(8) unsigned value[16] = {};
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  DriverStream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

/// CUstreamCaptureMode values.
inline constexpr int kCaptureThreadLocal = 1;
inline constexpr int kCaptureRelaxed = 2;

/// CUstreamCaptureStatus values.
inline constexpr int kCaptureNone = 0;

/// CUtensorMapDataType values for elements of 1, 2, 4 and 8 bytes. Copies depend on the element size alone; the exact
/// type matters for reductions only.
inline constexpr int kTensorUint8 = 0;
inline constexpr int kTensorUint16 = 1;
inline constexpr int kTensorUint32 = 2;
inline constexpr int kTensorUint64 = 4;

/// CUtensorMapInterleave and CUtensorMapFloatOOBfill values.
inline constexpr int kNotInterleaved = 0;
inline constexpr int kFillWithZeros = 0;

/// CUstream_flags value: no implicit ordering with the legacy default stream.
inline constexpr unsigned kStreamNonBlocking = 1;

/// CUdriverProcAddress_flags value: a nullptr stream means the legacy default stream, no matter how the embedding
/// program was compiled.
inline constexpr unsigned long long kLegacyStream = 1;

// X(function, version of its prototype, parameters).
#define CUBIT_CUDA_FUNCTIONS(X)                                                                                \
  X(cuInit, 2000, (unsigned flags))                                                                            \
  X(cuGetErrorName, 6000, (Result error, const char** text))                                                   \
  X(cuGetErrorString, 6000, (Result error, const char** text))                                                 \
  X(cuDriverGetVersion, 2020, (int* version))                                                                  \
  X(cuDeviceGetCount, 2000, (int* count))                                                                      \
  X(cuDeviceGet, 2000, (DeviceHandle * device, int ordinal))                                                   \
  X(cuDeviceGetName, 2000, (char* name, int length, DeviceHandle device))                                      \
  X(cuDeviceTotalMem, 3020, (std::size_t * bytes, DeviceHandle device))                                        \
  X(cuDeviceGetAttribute, 2000, (int* value, int attribute, DeviceHandle device))                              \
  X(cuDevicePrimaryCtxRetain, 7000, (Context * context, DeviceHandle device))                                  \
  X(cuDevicePrimaryCtxRelease, 11000, (DeviceHandle device))                                                   \
  X(cuCtxGetCurrent, 4000, (Context * context))                                                                \
  X(cuCtxPushCurrent, 4000, (Context context))                                                                 \
  X(cuCtxPopCurrent, 4000, (Context * context))                                                                \
  X(cuCtxGetDevice, 2000, (DeviceHandle * device))                                                             \
  X(cuCtxGetId, 12000, (Context context, unsigned long long* id))                                              \
  X(cuLibraryLoadData, 12000,                                                                                  \
    (Library * library, const void* code, int* jit_options, void** jit_values, unsigned jit_count,             \
     int* library_options, void** library_values, unsigned library_count))                                     \
  X(cuLibraryUnload, 12000, (Library library))                                                                 \
  X(cuLibraryGetKernel, 12000, (DriverKernel * kernel, Library library, const char* name))                     \
  X(cuKernelGetFunction, 12000, (Function * function, DriverKernel kernel))                                    \
  X(cuFuncSetAttribute, 9000, (Function function, int attribute, int value))                                   \
  X(cuLaunchKernel, 4000,                                                                                      \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, DriverStream stream, void** parameters, void** extra))           \
  X(cuLaunchKernelEx, 11060, (const LaunchConfig* config, Function function, void** parameters, void** extra)) \
  X(cuMemAlloc, 3020, (Address * memory, std::size_t bytes))                                                   \
  X(cuMemFree, 3020, (Address memory))                                                                         \
  X(cuMemsetD8Async, 3020, (Address memory, unsigned char value, std::size_t bytes, DriverStream stream))      \
  X(cuMemcpyHtoDAsync, 3020, (Address dst, const void* src, std::size_t bytes, DriverStream stream))           \
  X(cuMemcpyDtoHAsync, 3020, (void* dst, Address src, std::size_t bytes, DriverStream stream))                 \
  X(cuStreamCreate, 2000, (DriverStream * stream, unsigned flags))                                             \
  X(cuStreamDestroy, 4000, (DriverStream stream))                                                              \
  X(cuStreamSynchronize, 2000, (DriverStream stream))                                                          \
  X(cuStreamIsCapturing, 10000, (DriverStream stream, int* status))                                            \
  X(cuThreadExchangeStreamCaptureMode, 10010, (int* mode))                                                     \
  X(cuStreamBeginCapture, 10010, (DriverStream stream, int mode))                                              \
  X(cuStreamEndCapture, 10000, (DriverStream stream, DriverGraph * graph))                                     \
  X(cuGraphInstantiateWithFlags, 11040, (GraphExec * executable, DriverGraph graph, unsigned long long flags)) \
  X(cuGraphLaunch, 10000, (GraphExec executable, DriverStream stream))                                         \
  X(cuGraphDestroy, 10000, (DriverGraph graph))                                                                \
  X(cuGraphExecDestroy, 10000, (GraphExec executable))                                                         \
  X(cuEventCreate, 2000, (Event * event, unsigned flags))                                                      \
  X(cuEventDestroy, 4000, (Event event))                                                                       \
  X(cuEventRecord, 2000, (Event event, DriverStream stream))                                                   \
  X(cuEventSynchronize, 2000, (Event event))                                                                   \
  X(cuEventElapsedTime, 2000, (float* milliseconds, Event begin, Event end))

// Functions that only some kernels need; nullptr if the driver lacks a function.
#define CUBIT_CUDA_OPTIONAL_FUNCTIONS(X)                                                                            \
  X(cuTensorMapEncodeTiled, 12000,                                                                                  \
    (void* map, int type, unsigned rank, void* base, const std::uint64_t* sizes, const std::uint64_t* strides,      \
     const std::uint32_t* box, const std::uint32_t* element_strides, int interleave, int swizzle, int l2_promotion, \
     int fill))

/// The driver's entry points. The object is never destroyed and the library is never closed, because handles may be
/// freed while the process exits.
struct Driver {
  int version = 0;  ///< 13000 for 13.0
  int process = 0;  ///< the process that initialised the driver; a child of a fork cannot use it
#define CUBIT_DECLARE(function, version, parameters) Result(*function) parameters = nullptr;
  CUBIT_CUDA_FUNCTIONS(CUBIT_DECLARE)
  CUBIT_CUDA_OPTIONAL_FUNCTIONS(CUBIT_DECLARE)
#undef CUBIT_DECLARE
};

/// Returns the driver, opened and initialised at the first call, with all entry points except the optional ones. Throws
/// Failure(driver_unavailable) with the reason: no library, a driver older than CUDA 12.0, or the error of cuInit.
const Driver& driver();

/// The version that an installed driver reports, even if cuInit fails because there is no device; 0 without a driver.
int driver_version() noexcept;

/// Why driver() throws, or why the driver works no longer in this process, or "" if it works.
std::string driver_trouble();

/// Throws Failure(device_error), which names the call and the driver's error, if `result` is not kSuccess.
void check(const Driver& driver, Result result, const char* call);

/// For tests: later calls use the library `path` instead of libcuda.so.1. Existing device objects keep the driver that
/// they were made with.
void use_driver_library(const std::string& path);

}  // namespace cubit::runtime::cuda
