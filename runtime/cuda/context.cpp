// Implements ContextDevice: loading, launching, memory, streams and graphs through the CUDA driver.
#include "runtime/cuda/context.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "base/error.hpp"

namespace cubit::runtime::cuda {
namespace {

/// Shared memory, static plus dynamic, that a launch may use without raising the function's limit, on every
/// architecture (CUDA C++ Programming Guide, "Shared Memory").
constexpr int kSharedMemoryWithoutOptIn = 48 * 1024;
constexpr int kPortableClusterBlocks = 8;

DriverStream driver_stream(Stream stream) { return static_cast<DriverStream>(stream); }
Address address(const void* memory) { return reinterpret_cast<Address>(memory); }

/// A cubin loaded as a library, and its one function in the context that was current at loading.
class ContextKernel final : public LoadedKernel {
 public:
  ContextKernel(const Driver& driver, Library library) : driver_(driver), library_(library) {}
  ContextKernel(const ContextKernel&) = delete;
  ContextKernel& operator=(const ContextKernel&) = delete;
  /// A destroyed context has destroyed its functions and leaves the library valid. A driver that shuts down at process
  /// exit returns an error. Both cases are harmless here.
  ~ContextKernel() override {
    const RelaxedCapture relaxed(driver_);
    driver_.cuLibraryUnload(library_);
  }

  void resolve(const char* entry_point) {
    DriverKernel kernel = nullptr;
    check(driver_, driver_.cuLibraryGetKernel(&kernel, library_, entry_point), "cuLibraryGetKernel");
    check(driver_, driver_.cuKernelGetFunction(&function_, kernel), "cuKernelGetFunction");
  }
  void allow_dynamic_shared_memory(int bytes) {
    check(driver_, driver_.cuFuncSetAttribute(function_, kMaxDynamicSharedSizeBytes, bytes), "cuFuncSetAttribute");
  }
  void allow_large_clusters() {
    check(driver_, driver_.cuFuncSetAttribute(function_, kNonPortableClusterSizeAllowed, 1), "cuFuncSetAttribute");
  }
  Function function() const { return function_; }

 private:
  const Driver& driver_;
  Library library_;
  Function function_ = nullptr;
};

class ContextGraph final : public Graph {
 public:
  ContextGraph(const Driver& driver, GraphExec executable) : driver_(driver), executable_(executable) {}
  ContextGraph(const ContextGraph&) = delete;
  ContextGraph& operator=(const ContextGraph&) = delete;
  ~ContextGraph() override { driver_.cuGraphExecDestroy(executable_); }
  GraphExec executable() const { return executable_; }

 private:
  const Driver& driver_;
  GraphExec executable_;
};

class TimingEvent {
 public:
  explicit TimingEvent(const Driver& driver) : driver_(driver) {
    check(driver_, driver_.cuEventCreate(&event_, 0), "cuEventCreate");
  }
  TimingEvent(const TimingEvent&) = delete;
  TimingEvent& operator=(const TimingEvent&) = delete;
  ~TimingEvent() { driver_.cuEventDestroy(event_); }
  void record(DriverStream stream) { check(driver_, driver_.cuEventRecord(event_, stream), "cuEventRecord"); }
  Event get() const { return event_; }

 private:
  const Driver& driver_;
  Event event_ = nullptr;
};

int tensor_type(int element_bytes) {
  switch (element_bytes) {
    case 1:
      return kTensorUint8;
    case 2:
      return kTensorUint16;
    case 4:
      return kTensorUint32;
    default:
      return kTensorUint64;
  }
}

/// Encodes a byte count as CUtensorMapSwizzle and CUtensorMapL2promotion do: 0, `first`, twice `first` … become 0, 1, 2
/// ….
int step(unsigned bytes, unsigned first) { return static_cast<int>(std::bit_width(bytes / first)); }

/// Prepares every driver call except a launch: makes the context current and protects captures elsewhere.
struct Call {
  explicit Call(ContextDevice& device, const Driver& driver) : current(device), relaxed(driver) {}
  CurrentDevice current;
  RelaxedCapture relaxed;
};

}  // namespace

bool ContextDevice::dead() const {
  unsigned long long id = 0;
  return driver_.cuCtxGetId(context_, &id) != kSuccess || id != id_;
}

bool ContextDevice::enter() {
  Context current = nullptr;
  check(driver_, driver_.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current == context_) return false;
  check(driver_, driver_.cuCtxPushCurrent(context_), "cuCtxPushCurrent");
  return true;
}

void ContextDevice::leave() noexcept {
  Context popped = nullptr;
  driver_.cuCtxPopCurrent(&popped);
}

std::unique_ptr<LoadedKernel> ContextDevice::load(const Artifact& artifact, const codegen::LaunchFacts& launch) {
  const RelaxedCapture relaxed(driver_);
  Library library = nullptr;
  const void* code = artifact.cubin.data();
  std::string ptx;  // the driver reads PTX up to a zero byte, which a store does not keep
  if (artifact.code == codegen::Code::ptx) {
    ptx.assign(static_cast<const char*>(code), artifact.cubin.size());
    code = ptx.c_str();
  }
  check(driver_, driver_.cuLibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cuLibraryLoadData");
  auto kernel = std::make_unique<ContextKernel>(driver_, library);
  kernel->resolve(artifact.entry_point.c_str());
  const int fixed = artifact.resources.static_shared_memory;
  // The limit of a kernel that was planned for another architecture may exceed what this device has.
  const int limit = std::min(launch.shared_memory_limit, facts_.architecture->shared_memory_per_block);
  const int most = std::max(launch.dynamic_shared_memory, limit - fixed);
  if (most + fixed > kSharedMemoryWithoutOptIn) {
    kernel->allow_dynamic_shared_memory(most);
  }
  if (launch.cluster_blocks > kPortableClusterBlocks) kernel->allow_large_clusters();
  return kernel;
}

void ContextDevice::launch(const LoadedKernel& kernel, const LaunchShape& shape, std::span<const std::byte> parameters,
                           Stream stream) {
  // The kernel's one argument is a struct by value. The driver copies the struct before the call returns.
  void* arguments[] = {const_cast<std::byte*>(parameters.data())};
  void** const given = parameters.empty() ? nullptr : arguments;
  const Function function = static_cast<const ContextKernel&>(kernel).function();
  if (shape.cluster_blocks > 1 || shape.overlap) {
    return launch_with_attributes(function, shape, given, driver_stream(stream));
  }
  const Result result = driver_.cuLaunchKernel(function, shape.grid[0], shape.grid[1], shape.grid[2], shape.threads, 1,
                                               1, shape.dynamic_shared_memory, driver_stream(stream), given, nullptr);
  check(driver_, result, "cuLaunchKernel");
}

void ContextDevice::launch_with_attributes(Function function, const LaunchShape& shape, void** parameters,
                                           DriverStream stream) {
  LaunchAttribute attributes[2];
  unsigned count = 0;
  if (shape.cluster_blocks > 1) attributes[count++] = {kClusterDimension, {shape.cluster_blocks, 1, 1}};
  if (shape.overlap) attributes[count++] = {kProgrammaticStreamSerialization, {1}};
  const LaunchConfig config{.grid = {shape.grid[0], shape.grid[1], shape.grid[2]},
                            .block = {shape.threads, 1, 1},
                            .shared_bytes = shape.dynamic_shared_memory,
                            .stream = stream,
                            .attributes = attributes,
                            .attribute_count = count};
  check(driver_, driver_.cuLaunchKernelEx(&config, function, parameters, nullptr), "cuLaunchKernelEx");
}

EncodedTensorMap ContextDevice::encode(const TensorMap& map) {
  static constexpr std::uint32_t kEveryElement[TensorMap::kMostDimensions] = {1, 1, 1, 1, 1};
  validate(map);
  if (driver_.cuTensorMapEncodeTiled == nullptr) {
    throw Failure(Status::unsupported, map.text(), "this CUDA driver has no cuTensorMapEncodeTiled",
                  "install a newer driver, or use a kernel that needs no tensor map");
  }
  EncodedTensorMap encoded;
  const Result result = driver_.cuTensorMapEncodeTiled(
      encoded.bytes.data(), tensor_type(map.element_bytes), static_cast<unsigned>(map.rank),
      reinterpret_cast<void*>(map.base), map.sizes.data(), map.strides.data(), map.box.data(), kEveryElement,
      kNotInterleaved, step(static_cast<unsigned>(map.swizzle), 32), step(map.l2_bytes, 64), kFillWithZeros);
  check(driver_, result, "cuTensorMapEncodeTiled");
  return encoded;
}

bool ContextDevice::capturing(Stream stream) {
  const CurrentDevice current(*this);
  int status = kCaptureNone;
  const Result result = driver_.cuStreamIsCapturing(driver_stream(stream), &status);
  if (result == kStreamCaptureImplicit) {
    // The query is about the legacy default stream while a blocking stream of the context is being captured. Continuing
    // would invalidate that capture, so neither true nor false is right.
    throw Failure(Status::device_error, "cuStreamIsCapturing",
                  "the legacy default stream cannot be used while a blocking stream of its context is captured",
                  "use the captured stream, or capture a non-blocking stream");
  }
  check(driver_, result, "cuStreamIsCapturing");
  return status != kCaptureNone;
}

void* ContextDevice::allocate(std::size_t bytes) {
  const Call call(*this, driver_);
  Address memory = 0;
  check(driver_, driver_.cuMemAlloc(&memory, bytes), "cuMemAlloc");
  return reinterpret_cast<void*>(memory);
}

void ContextDevice::release(void* memory) {
  const Call call(*this, driver_);
  check(driver_, driver_.cuMemFree(address(memory)), "cuMemFree");
}

void ContextDevice::fill_zero(void* memory, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const Call call(*this, driver_);
  check(driver_, driver_.cuMemsetD8Async(address(memory), 0, bytes, driver_stream(stream)), "cuMemsetD8Async");
}

void ContextDevice::copy_to_device(void* dst, const void* src, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const Call call(*this, driver_);
  check(driver_, driver_.cuMemcpyHtoDAsync(address(dst), src, bytes, driver_stream(stream)), "cuMemcpyHtoDAsync");
}

void ContextDevice::copy_to_host(void* dst, const void* src, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const Call call(*this, driver_);
  check(driver_, driver_.cuMemcpyDtoHAsync(dst, address(src), bytes, driver_stream(stream)), "cuMemcpyDtoHAsync");
}

void ContextDevice::synchronise(Stream stream) {
  const Call call(*this, driver_);
  check(driver_, driver_.cuStreamSynchronize(driver_stream(stream)), "cuStreamSynchronize");
}

Stream ContextDevice::create_stream() {
  const Call call(*this, driver_);
  DriverStream stream = nullptr;
  check(driver_, driver_.cuStreamCreate(&stream, kStreamNonBlocking), "cuStreamCreate");
  return stream;
}

void ContextDevice::destroy_stream(Stream stream) {
  const Call call(*this, driver_);
  check(driver_, driver_.cuStreamDestroy(driver_stream(stream)), "cuStreamDestroy");
}

void ContextDevice::begin_capture(Stream stream) {
  const Call call(*this, driver_);
  check(driver_, driver_.cuStreamBeginCapture(driver_stream(stream), kCaptureThreadLocal), "cuStreamBeginCapture");
}

std::unique_ptr<Graph> ContextDevice::end_capture(Stream stream) {
  const Call call(*this, driver_);
  DriverGraph graph = nullptr;
  check(driver_, driver_.cuStreamEndCapture(driver_stream(stream), &graph), "cuStreamEndCapture");
  GraphExec executable = nullptr;
  const Result result = driver_.cuGraphInstantiateWithFlags(&executable, graph, 0);
  driver_.cuGraphDestroy(graph);
  check(driver_, result, "cuGraphInstantiateWithFlags");
  return std::make_unique<ContextGraph>(driver_, executable);
}

double ContextDevice::replay(Graph& graph, Stream stream) {
  const Call call(*this, driver_);
  TimingEvent begin(driver_);
  TimingEvent end(driver_);
  begin.record(driver_stream(stream));
  const GraphExec executable = static_cast<ContextGraph&>(graph).executable();
  check(driver_, driver_.cuGraphLaunch(executable, driver_stream(stream)), "cuGraphLaunch");
  end.record(driver_stream(stream));
  check(driver_, driver_.cuEventSynchronize(end.get()), "cuEventSynchronize");
  float milliseconds = 0;
  check(driver_, driver_.cuEventElapsedTime(&milliseconds, begin.get(), end.get()), "cuEventElapsedTime");
  return milliseconds;
}

}  // namespace cubit::runtime::cuda
