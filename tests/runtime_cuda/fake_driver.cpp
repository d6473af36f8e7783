// A CUDA driver in memory. Its table of entry points is made from the list in driver.hpp, so it cannot lack one.
#include "tests/runtime_cuda/fake_driver.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>

using namespace cubit::runtime::cuda;

namespace cubit::fake {
namespace {

// CUresult values
constexpr Result kInvalidValue = 1;
constexpr Result kInvalidDevice = 101;
constexpr Result kInvalidContext = 201;
constexpr Result kInvalidHandle = 400;
constexpr Result kContextIsDestroyed = 709;
constexpr Result kCaptureUnsupported = 900;
constexpr Result kCaptureInvalidated = 901;
constexpr Result kNotCaptured = 904;
constexpr int kCaptureGlobal = 0;
constexpr int kDefaultShared = 48 * 1024;

struct FakeContext {
  unsigned long long id = 0;  ///< 0: not alive
  int device = 0;
};

struct FakeStream {
  bool blocking = false;
  int capture = -1;  ///< mode, or -1
  bool invalidated = false;
  std::thread::id thread;
};

struct FakeFunction {
  unsigned long long context = 0;
  int shared_limit = kDefaultShared;
  bool large_clusters = false;
};

struct State final : Controls {
  std::mutex mutex;
  int devices = 0;
  bool gone = false;
  std::map<std::string, Result, std::less<>> failures;
  std::set<std::string> hidden;
  std::array<FakeContext, 256> contexts;
  unsigned long long next_id = 1;
  std::map<int, std::pair<FakeContext*, int>> primaries;  ///< device -> context and retains
  std::vector<std::unique_ptr<FakeStream>> streams;
  std::vector<std::unique_ptr<FakeFunction>> functions;
  std::set<void*> libraries;
  int load_count = 0;
  int unload_count = 0;
  std::set<void*> memory;
  std::vector<LaunchRecord> launch_log;
  std::vector<LimitRecord> limit_log;

  void reset(int count) override;
  void fail(const char* function, int result) override;
  void hide(const char* function) override { hidden.insert(function); }
  void shut_down() override { gone = true; }
  Context create_context(int device) override;
  void destroy_context(Context context) override;
  std::vector<Context> stack() override;
  int primary_retains(int device) override { return primaries[device].second; }
  DriverStream blocking_stream() override;
  bool capture_valid(DriverStream stream) override;
  int loads() override { return load_count; }
  int unloads() override { return unload_count; }
  int allocations() override { return static_cast<int>(memory.size()); }
  std::vector<LaunchRecord> launches() override { return launch_log; }
  std::vector<LimitRecord> limits() override { return limit_log; }
};

State& state() {
  static State* const instance = new State;
  return *instance;
}

thread_local std::vector<FakeContext*> t_stack;
thread_local int t_mode = kCaptureGlobal;

FakeContext* context_of(Context handle) { return reinterpret_cast<FakeContext*>(handle); }
Context handle_of(FakeContext* context) { return reinterpret_cast<Context>(context); }
FakeStream* stream_of(DriverStream handle) { return reinterpret_cast<FakeStream*>(handle); }

FakeContext* current() { return t_stack.empty() || t_stack.back()->id == 0 ? nullptr : t_stack.back(); }

FakeContext* new_context(int device) {
  for (FakeContext& context : state().contexts) {
    if (context.id != 0) continue;
    context = {state().next_id++, device};
    return &context;
  }
  std::abort();
}

/// "CUDA Driver API", cuThreadExchangeStreamCaptureMode: which captures forbid this thread a potentially unsafe call.
/// Those are invalidated by the attempt.
bool unsafe_call_forbidden() {
  bool forbidden = false;
  for (const auto& stream : state().streams) {
    const bool own = stream->thread == std::this_thread::get_id();
    const bool bites = (t_mode == kCaptureGlobal &&
                        (stream->capture == kCaptureGlobal || (own && stream->capture == kCaptureThreadLocal))) ||
                       (t_mode == kCaptureThreadLocal && own && stream->capture != kCaptureRelaxed);
    if (stream->capture < 0 || !bites) continue;
    stream->invalidated = true;
    forbidden = true;
  }
  return forbidden;
}

bool blocking_capture() {
  return std::any_of(state().streams.begin(), state().streams.end(),
                     [](const auto& stream) { return stream->blocking && stream->capture >= 0; });
}

/// What a call that puts work on a stream meets: an error, or whether it is recorded.
Result enqueue(DriverStream handle, bool& captured) {
  captured = false;
  if (handle == nullptr) {
    if (!blocking_capture()) return kSuccess;
    for (const auto& stream : state().streams) stream->invalidated |= stream->blocking && stream->capture >= 0;
    return kStreamCaptureImplicit;
  }
  captured = stream_of(handle)->capture >= 0;
  return captured && stream_of(handle)->invalidated ? kCaptureInvalidated : kSuccess;
}

// The driver's functions, by their names. The mutex is held, failures asked for by the test are dealt with before.

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
                                     {kMultiprocessorCount, 132},
                                     {kL2CacheSize, 1 << 20},
                                     {kCapabilityMajor, 9},
                                     {kCapabilityMinor, 0}};
  const auto found = values.find(attribute);
  if (found == values.end()) return kInvalidValue;
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
Result cuLibraryLoadData(Library* library, const void* code, int*, void**, unsigned, int*, void**, unsigned) {
  if (current() == nullptr) return kInvalidContext;
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  if (code == nullptr) return kInvalidValue;
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
Result cuLibraryGetKernel(KernelHandle* kernel, Library library, const char* name) {
  if (std::strcmp(name, "missing") == 0) return 500;  // CUDA_ERROR_NOT_FOUND
  *kernel = reinterpret_cast<KernelHandle>(library);
  return kSuccess;
}
Result cuKernelGetFunction(Function* function, KernelHandle) {
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
Result cuMemAlloc(Address* memory, std::size_t bytes) {
  if (current() == nullptr) return kInvalidContext;
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  void* const block = std::malloc(bytes);
  state().memory.insert(block);
  *memory = reinterpret_cast<Address>(block);
  return kSuccess;
}
Result cuMemFree(Address memory) {
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  if (state().memory.erase(reinterpret_cast<void*>(memory)) == 0) return kInvalidValue;
  std::free(reinterpret_cast<void*>(memory));
  return kSuccess;
}
Result cuMemsetD8Async(Address memory, unsigned char value, std::size_t bytes, DriverStream) {
  if (current() == nullptr) return kInvalidContext;
  std::memset(reinterpret_cast<void*>(memory), value, bytes);
  return kSuccess;
}
Result cuMemcpyHtoDAsync(Address dst, const void* src, std::size_t bytes, DriverStream) {
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  if (current() == nullptr) return kInvalidContext;
  std::memcpy(reinterpret_cast<void*>(dst), src, bytes);
  return kSuccess;
}
Result cuMemcpyDtoHAsync(void* dst, Address src, std::size_t bytes, DriverStream) {
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  if (current() == nullptr) return kInvalidContext;
  std::memcpy(dst, reinterpret_cast<void*>(src), bytes);
  return kSuccess;
}
Result cuStreamCreate(DriverStream* stream, unsigned flags) {
  if (current() == nullptr) return kInvalidContext;
  state().streams.push_back(std::make_unique<FakeStream>());
  state().streams.back()->blocking = (flags & kStreamNonBlocking) == 0;
  *stream = reinterpret_cast<DriverStream>(state().streams.back().get());
  return kSuccess;
}
Result cuStreamDestroy(DriverStream stream) {
  const auto gone = std::erase_if(state().streams, [&](const auto& known) { return known.get() == stream_of(stream); });
  return gone == 1 ? kSuccess : kInvalidHandle;
}
Result cuStreamSynchronize(DriverStream) {
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  return current() == nullptr ? kInvalidContext : kSuccess;
}
Result cuStreamIsCapturing(DriverStream stream, int* status) {
  if (current() == nullptr) return kInvalidContext;
  if (stream == nullptr && blocking_capture()) return kStreamCaptureImplicit;
  const bool capturing = stream != nullptr && stream_of(stream)->capture >= 0;
  *status = !capturing ? 0 : stream_of(stream)->invalidated ? 2 : 1;
  return kSuccess;
}
Result cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, t_mode);
  return kSuccess;
}
Result cuStreamBeginCapture(DriverStream stream, int mode) {
  if (stream == nullptr) return kCaptureUnsupported;
  stream_of(stream)->capture = mode;
  stream_of(stream)->invalidated = false;
  stream_of(stream)->thread = std::this_thread::get_id();
  return kSuccess;
}
Result cuStreamEndCapture(DriverStream stream, DriverGraph* graph) {
  if (stream_of(stream)->capture < 0) return kNotCaptured;
  stream_of(stream)->capture = -1;
  *graph = nullptr;
  if (stream_of(stream)->invalidated) return kCaptureInvalidated;
  *graph = static_cast<DriverGraph>(std::malloc(1));
  return kSuccess;
}
Result cuGraphInstantiateWithFlags(GraphExec* executable, DriverGraph, unsigned long long) {
  *executable = static_cast<GraphExec>(std::malloc(1));
  return kSuccess;
}
Result cuGraphLaunch(GraphExec, DriverStream) { return kSuccess; }
Result cuGraphDestroy(DriverGraph graph) { return std::free(graph), kSuccess; }
Result cuGraphExecDestroy(GraphExec executable) { return std::free(executable), kSuccess; }
Result cuEventCreate(Event* event, unsigned) {
  *event = static_cast<Event>(std::malloc(1));
  return current() == nullptr ? kInvalidContext : kSuccess;
}
Result cuEventDestroy(Event event) { return std::free(event), kSuccess; }
Result cuEventRecord(Event, DriverStream) { return kSuccess; }
Result cuEventSynchronize(Event) { return kSuccess; }
Result cuEventElapsedTime(float* milliseconds, Event, Event) {
  *milliseconds = 1.5F;
  return kSuccess;
}

Result cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* base, const std::uint64_t* sizes,
                              const std::uint64_t* strides, const std::uint32_t* box,
                              const std::uint32_t* element_strides, int interleave, int swizzle, int l2_promotion,
                              int fill) {
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0) return kInvalidValue;
  const EncodedMap told{reinterpret_cast<unsigned long long>(base),
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
  std::memcpy(map, &told, sizeof told);
  return kSuccess;
}

/// What every call meets first.
Result before(const char* function) {
  if (state().gone) return kDeinitialized;
  const auto failure = state().failures.find(function);
  return failure == state().failures.end() ? kSuccess : failure->second;
}

template <class Signature, Signature* kFunction>
struct Entry;
template <class... Arguments, Result (*kFunction)(Arguments...)>
struct Entry<Result(Arguments...), kFunction> {
  static inline const char* name = "";
  static Result call(Arguments... arguments) {
    const std::lock_guard lock(state().mutex);
    const Result result = before(name);
    return result == kSuccess ? kFunction(arguments...) : result;
  }
};

struct EntryPoint {
  int version;
  void* address;
};

const std::map<std::string, EntryPoint>& entry_points() {
#define CUBIT_FAKE(function, version, parameters)                    \
  {#function,                                                        \
   {version, (Entry<decltype(function), function>::name = #function, \
              reinterpret_cast<void*>(&Entry<decltype(function), function>::call))}},
  static const std::map<std::string, EntryPoint> table = {CUBIT_CUDA_FUNCTIONS(CUBIT_FAKE)
                                                              CUBIT_CUDA_OPTIONAL_FUNCTIONS(CUBIT_FAKE)};
#undef CUBIT_FAKE
  return table;
}

void State::reset(int count) {
  const std::lock_guard lock(mutex);
  devices = count;
  gone = false;
  failures.clear();
  hidden.clear();
  for (FakeContext& context : contexts) context.id = 0;
  primaries.clear();
  streams.clear();
  for (void* block : memory) std::free(block);
  memory.clear();
  load_count = unload_count = 0;
  launch_log.clear();
  launch_log.reserve(1024);  // a test counts what a launch allocates
  limit_log.clear();
  t_stack.clear();
  t_mode = kCaptureGlobal;
}

void State::fail(const char* function, int result) {
  const std::lock_guard lock(mutex);
  failures[function] = result;
}

Context State::create_context(int device) {
  const std::lock_guard lock(mutex);
  t_stack.push_back(new_context(device));
  return handle_of(t_stack.back());
}

void State::destroy_context(Context context) {
  const std::lock_guard lock(mutex);
  context_of(context)->id = 0;
  std::erase(t_stack, context_of(context));
}

std::vector<Context> State::stack() {
  std::vector<Context> handles;
  for (FakeContext* context : t_stack) handles.push_back(handle_of(context));
  return handles;
}

DriverStream State::blocking_stream() {
  const std::lock_guard lock(mutex);
  streams.push_back(std::make_unique<FakeStream>());
  streams.back()->blocking = true;
  return reinterpret_cast<DriverStream>(streams.back().get());
}

bool State::capture_valid(DriverStream stream) {
  const std::lock_guard lock(mutex);
  return stream_of(stream)->capture >= 0 && !stream_of(stream)->invalidated;
}

}  // namespace
}  // namespace cubit::fake

#define CUBIT_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

CUBIT_FAKE_EXPORT Result cuGetProcAddress_v2(const char* symbol, void** function, int version, unsigned long long flags,
                                             int* status);
CUBIT_FAKE_EXPORT Result cuGetProcAddress_v2(const char* symbol, void** function, int version, unsigned long long flags,
                                             int* status) {
  const auto found = cubit::fake::entry_points().find(symbol);
  const bool known = found != cubit::fake::entry_points().end() && found->second.version == version &&
                     flags == kLegacyStream && !cubit::fake::state().hidden.contains(symbol);
  *function = known ? found->second.address : nullptr;
  *status = known ? 0 : 1;
  return known ? kSuccess : 500;
}

CUBIT_FAKE_EXPORT cubit::fake::Controls* cubit_fake_controls() { return &cubit::fake::state(); }
