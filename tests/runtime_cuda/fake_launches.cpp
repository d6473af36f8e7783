// The fake CUDA driver: libraries, kernels, launches, tensor maps.
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "tests/runtime_cuda/fake_state.hpp"

namespace cubit::fake {

Result cuLibraryLoadData(Library* library, const void* code, int*, void**, unsigned, int*, void**, unsigned) {
  if (current() == nullptr) return kInvalidContext;
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  if (code == nullptr) return kInvalidValue;
  const auto* const text = static_cast<const char*>(code);
  if (text[0] == '/') state().ptx.emplace_back(text);
  *library = static_cast<Library>(std::malloc(1));
  state().libraries.insert(*library);
  ++state().load_count;
  return kSuccess;
}
Result cuLibraryUnload(Library library) {
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  if (state().libraries.erase(library) == 0) return kInvalidHandle;
  std::free(library);
  ++state().unload_count;
  return kSuccess;
}
Result cuLibraryGetKernel(DriverKernel* kernel, Library library, const char* name) {
  if (std::strcmp(name, "missing") == 0) return 500;  // CUDA_ERROR_NOT_FOUND
  *kernel = reinterpret_cast<DriverKernel>(library);
  return kSuccess;
}
Result cuKernelGetFunction(Function* function, DriverKernel) {
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  state().functions.push_back(std::make_unique<FakeFunction>(FakeFunction{current()->id}));
  *function = reinterpret_cast<Function>(state().functions.back().get());
  return kSuccess;
}
Result cuFuncSetAttribute(Function function, int attribute, int value) {
  auto& target = *reinterpret_cast<FakeFunction*>(function);
  if (attribute == kNonPortableClusterSizeAllowed) {
    target.large_clusters = value != 0;
    return kSuccess;
  }
  if (attribute != kMaxDynamicSharedSizeBytes) return kInvalidValue;
  target.shared_limit = value;
  state().limit_log.push_back({target.context, value});
  return kSuccess;
}
Result cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned,
                      unsigned, unsigned shared_bytes, DriverStream stream, void** parameters, void**) {
  const auto& target = *reinterpret_cast<FakeFunction*>(function);
  if (current() == nullptr || target.context != current()->id) return kInvalidHandle;
  if (block_x > 1024 || static_cast<int>(shared_bytes) > target.shared_limit) return kInvalidValue;
  LaunchRecord record{current()->id, stream, {grid_x, grid_y, grid_z}, block_x, shared_bytes, 0, false};
  if (const Result result = enqueue(stream, record.captured); result != kSuccess) return result;
  if (parameters != nullptr) std::memcpy(&record.first_parameter, parameters[0], sizeof record.first_parameter);
  state().launch_log.push_back(record);
  return kSuccess;
}
Result cuLaunchKernelEx(const LaunchConfig* config, Function function, void** parameters, void** extra) {
  unsigned blocks = 1;
  bool overlap = false;
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    if (attribute.id == kClusterDimension) {
      blocks = attribute.value[0];
    } else if (attribute.id == kProgrammaticStreamSerialization) {
      overlap = attribute.value[0] == 1;
    } else {
      return kInvalidValue;
    }
  }
  const unsigned most = reinterpret_cast<FakeFunction*>(function)->large_clusters ? 16 : 8;
  if (blocks > most || config->grid[0] % blocks != 0) return kInvalidValue;
  const Result result =
      cuLaunchKernel(function, config->grid[0], config->grid[1], config->grid[2], config->block[0], config->block[1],
                     config->block[2], config->shared_bytes, config->stream, parameters, extra);
  if (result != kSuccess) return result;
  state().launch_log.back().cluster_blocks = blocks;
  state().launch_log.back().overlap = overlap;
  return kSuccess;
}
Result cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* base, const std::uint64_t* sizes,
                              const std::uint64_t* strides, const std::uint32_t* box,
                              const std::uint32_t* element_strides, int interleave, int swizzle, int l2_promotion,
                              int fill) {
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0) return kInvalidValue;
  const EncodedMap encoded{reinterpret_cast<unsigned long long>(base),
                           sizes[rank - 1],
                           rank > 1 ? strides[rank - 2] : 0,
                           box[rank - 1],
                           static_cast<int>(rank),
                           type,
                           static_cast<int>(std::accumulate(element_strides, element_strides + rank, 0u)),
                           interleave,
                           swizzle,
                           l2_promotion,
                           fill};
  std::memcpy(map, &encoded, sizeof encoded);
  ++state().map_count;
  return kSuccess;
}

}  // namespace cubit::fake
