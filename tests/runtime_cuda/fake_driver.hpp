// The controls of the fake CUDA driver: a shared library that implements in memory what cubit uses of libcuda.so.1,
// with the rules of captures and contexts that cubit must keep. Tests load it through use_driver_library().
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/cuda/driver.hpp"

namespace cubit::fake {

struct LaunchRecord {
  unsigned long long context = 0;  ///< id of the context that was current
  runtime::cuda::DriverStream stream = nullptr;
  unsigned grid[3] = {};
  unsigned threads = 0;
  unsigned shared_bytes = 0;
  int first_parameter = 0;  ///< the first four bytes of the argument struct; 0 without one
  bool captured = false;
  unsigned cluster_blocks = 1;
  bool overlap = false;
};

struct LimitRecord {
  unsigned long long context = 0;
  int bytes = 0;
};

/// What the fake driver makes of a tensor map: what it was told.
struct EncodedMap {
  unsigned long long base = 0;
  unsigned long long outer_size = 0;  ///< of the last dimension
  unsigned long long outer_stride = 0;
  unsigned outer_box = 0;
  int rank = 0;
  int type = 0;
  int element_strides = 0;  ///< their sum
  int interleave = 0;
  int swizzle = 0;
  int l2_promotion = 0;
  int fill = 0;
};

/// Implemented inside the library; get them by controls().
class Controls {
 public:
  virtual ~Controls() = default;
  virtual void reset(int devices) = 0;                      ///< everything forgotten but ids, which never come again
  virtual void fail(const char* function, int result) = 0;  ///< that function now returns `result`
  virtual void hide(const char* function) = 0;              ///< cuGetProcAddress does not find it
  virtual void forget_attribute(int attribute) = 0;         ///< of a CUdevice_attribute: no device has it
  virtual void shut_down() = 0;                             ///< every call returns CUDA_ERROR_DEINITIALIZED

  virtual runtime::cuda::Context create_context(int device) = 0;     ///< pushes it, as cuCtxCreate does
  virtual void destroy_context(runtime::cuda::Context context) = 0;  ///< its handle is the next to be used again
  virtual std::vector<runtime::cuda::Context> stack() = 0;           ///< of this thread
  virtual int primary_retains(int device) = 0;

  virtual runtime::cuda::DriverStream blocking_stream() = 0;
  virtual bool capture_valid(runtime::cuda::DriverStream stream) = 0;  ///< records, and nothing has invalidated it

  virtual int loads() = 0;
  virtual int unloads() = 0;
  virtual int allocations() = 0;  ///< live
  virtual std::vector<LaunchRecord> launches() = 0;
  virtual int encoded_maps() = 0;
  virtual std::vector<LimitRecord> limits() = 0;  ///< shared-memory attributes that were set
};

}  // namespace cubit::fake

extern "C" cubit::fake::Controls* cubit_fake_controls();
