// The fake CUDA driver: initialisation, devices, contexts.
#include <algorithm>
#include <cstring>

#include "tests/runtime_cuda/fake_state.hpp"

namespace cubit::fake {

Result cuInit(unsigned) { return kSuccess; }
Result cuGetErrorName(Result error, const char** text) {
  thread_local std::string name;
  name = "CUDA_ERROR_" + std::to_string(error);
  *text = name.c_str();
  return kSuccess;
}
Result cuGetErrorString(Result, const char** text) {
  *text = "said the fake driver";
  return kSuccess;
}
Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
Result cuDeviceGetCount(int* count) {
  *count = state().devices;
  return kSuccess;
}
Result cuDeviceGet(DeviceHandle* device, int ordinal) {
  *device = ordinal;
  return ordinal < state().devices ? kSuccess : kInvalidDevice;
}
Result cuDeviceGetName(char* name, int length, DeviceHandle device) {
  const std::string text = "Fake GPU " + std::to_string(device);
  std::memcpy(name, text.c_str(), std::min<std::size_t>(text.size() + 1, static_cast<std::size_t>(length)));
  return kSuccess;
}
Result cuDeviceTotalMem(std::size_t* bytes, DeviceHandle) {
  *bytes = std::size_t{1} << 34;
  return kSuccess;
}
Result cuDeviceGetAttribute(int* value, int attribute, DeviceHandle) {
  const std::map<int, int> values = {{kClockRate, 1980000},
                                     {kMemoryClockRate, 3201000},
                                     {kGlobalMemoryBusWidth, 6144},
                                     {kMultiprocessorCount, 132},
                                     {kL2CacheSize, 1 << 20},
                                     {kCapabilityMajor, state().capability[0]},
                                     {kCapabilityMinor, state().capability[1]}};
  const auto found = values.find(attribute);
  if (found == values.end() || state().unknown_attributes.count(attribute) != 0) return kInvalidValue;
  *value = found->second;
  return kSuccess;
}
Result cuDevicePrimaryCtxRetain(Context* context, DeviceHandle device) {
  auto& [primary, retains] = state().primaries[device];
  if (retains++ == 0) primary = new_context(device);
  *context = handle_of(primary);
  return kSuccess;
}
Result cuDevicePrimaryCtxRelease(DeviceHandle device) {
  auto& [primary, retains] = state().primaries[device];
  if (retains == 0) return kInvalidContext;
  if (--retains == 0) primary->id = 0;
  return kSuccess;
}
Result cuCtxGetCurrent(Context* context) {
  *context = handle_of(current());
  return kSuccess;
}
Result cuCtxPushCurrent(Context context) {
  if (context_of(context)->id == 0) return kContextIsDestroyed;
  t_stack.push_back(context_of(context));
  return kSuccess;
}
Result cuCtxPopCurrent(Context* context) {
  if (t_stack.empty()) return kInvalidContext;
  *context = handle_of(t_stack.back());
  t_stack.pop_back();
  return kSuccess;
}
Result cuCtxGetDevice(DeviceHandle* device) {
  if (current() == nullptr) return kInvalidContext;
  *device = current()->device;
  return kSuccess;
}
Result cuCtxGetId(Context context, unsigned long long* id) {
  *id = context_of(context)->id;
  return *id == 0 ? kContextIsDestroyed : kSuccess;
}

}  // namespace cubit::fake
