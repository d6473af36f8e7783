// Controls of the fake CUDA driver: a shared library that implements in memory the functions of libcuda.so.1 that cubit
// uses, including the rules for captures and contexts. Tests load it through use_driver_library().
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
  int first_parameter = 0;  ///< the first four bytes of the argument struct; 0 if there is no argument
  bool captured = false;
  unsigned cluster_blocks = 1;
  bool overlap = false;
};

struct LimitRecord {
  unsigned long long context = 0;
  int bytes = 0;
};

/// The fake driver's encoding of a tensor map: the arguments of the call.
struct EncodedMap {
  unsigned long long base = 0;
  unsigned long long outer_size = 0;  ///< size of the last dimension
  unsigned long long outer_stride = 0;
  unsigned outer_box = 0;
  int rank = 0;
  int type = 0;
  int element_strides = 0;  ///< sum of the element strides
  int interleave = 0;
  int swizzle = 0;
  int l2_promotion = 0;
  int fill = 0;
};

/// The controls, implemented inside the library; get them with controls().
class Controls {
 public:
  virtual ~Controls() = default;
  virtual void reset(int devices) = 0;                      ///< forgets everything except ids, which are never reused
  virtual void fail(const char* function, int result) = 0;  ///< makes that function return `result`
  virtual void hide(const char* function) = 0;              ///< makes cuGetProcAddress not find the function
  virtual void forget_attribute(int attribute) = 0;         ///< makes all devices lack a CUdevice_attribute
  virtual void set_capability(int major, int minor) = 0;    ///< of all devices; 9.0 after reset()
  virtual void shut_down() = 0;                             ///< makes every call return CUDA_ERROR_DEINITIALIZED

  virtual runtime::cuda::Context create_context(int device) = 0;     ///< pushes the context, as cuCtxCreate does
  virtual void destroy_context(runtime::cuda::Context context) = 0;  ///< the handle is the next to be reused
  virtual std::vector<runtime::cuda::Context> stack() = 0;           ///< context stack of this thread
  virtual int primary_retains(int device) = 0;

  virtual runtime::cuda::DriverStream blocking_stream() = 0;
  virtual bool capture_valid(runtime::cuda::DriverStream stream) = 0;  ///< the stream records, and nothing has
                                                                       ///< invalidated the capture

  virtual int loads() = 0;
  virtual std::vector<std::string> loaded_ptx() = 0;  ///< the texts that were loaded, which begin with a comment
  virtual int unloads() = 0;
  virtual int allocations() = 0;  ///< live allocations
  virtual std::vector<LaunchRecord> launches() = 0;
  virtual int encoded_maps() = 0;
  virtual std::vector<LimitRecord> limits() = 0;  ///< shared-memory attributes that were set
};

}  // namespace cubit::fake

extern "C" cubit::fake::Controls* cubit_fake_controls();
