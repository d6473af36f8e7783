// C++ interface of cubit: a header-only layer over <cubit/cubit.h> that owns handles and throws cubit::Error.
//
//   cubit::Engine engine;
//   cubit::Kernel kernel = engine.get("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4");  // for the current device
//   kernel.launch(arguments, {.stream = stream, .workspace = workspace, .workspace_bytes = workspace_bytes});
//
// kernel.workspace(arguments) gives the workspace_bytes that a launch needs. Every function of this file throws
// cubit::Error when its C function fails, unless the function is noexcept. Comments of the C functions describe the
// details.
#pragma once

#include <cubit/cubit.h>

#include <cstddef>
#include <cstdint>
#include <cubit/error.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cubit {

/// Sizes and launch arguments by name: {"batch", 4}.
using Numbers = std::vector<std::pair<std::string, double>>;

namespace detail {

template <class Function, class... Arguments>
std::string text(Function function, Arguments... arguments) {
  const char* result = nullptr;
  check(function(arguments..., &result));
  return result;
}

inline std::vector<cubit_number> c_numbers(const Numbers& numbers) {
  std::vector<cubit_number> c;
  for (const auto& [name, value] : numbers) c.push_back({name.c_str(), value});
  return c;
}

}  // namespace detail

/// JSON texts that describe the library and this machine. cubit.h lists the fields at the C function of the same name.
inline std::string operators() { return detail::text(cubit_operators); }
inline std::string architectures() { return detail::text(cubit_architectures); }
inline std::string devices() { return detail::text(cubit_devices); }
/// The canonical text of `descriptor`; see cubit_descriptor_canonical.
inline std::string canonical(const std::string& descriptor) {
  return detail::text(cubit_descriptor_canonical, descriptor.c_str());
}
/// The texts of the kernels that `descriptor` names on an architecture, as a JSON array; see cubit_descriptor_members.
inline std::string members(const std::string& descriptor, const std::string& architecture) {
  return detail::text(cubit_descriptor_members, descriptor.c_str(), architecture.c_str());
}
/// The arguments that a descriptor takes, as JSON; see cubit_descriptor_arguments.
inline std::string arguments(const std::string& descriptor) {
  return detail::text(cubit_descriptor_arguments, descriptor.c_str());
}
/// Registers a score modification and returns "name@hash", the value of a descriptor's field `score`; see
/// cubit_add_score for `text`.
inline std::string add_score(const std::string& name, const std::string& text) {
  return detail::text(cubit_add_score, name.c_str(), text.c_str());
}
/// The plan of a descriptor for one architecture as JSON; see cubit_explain. explain_layouts() returns the plan's
/// register fragments and shared-memory layouts; see cubit_explain_layouts.
inline std::string explain(const std::string& descriptor, const std::string& architecture) {
  return detail::text(cubit_explain, descriptor.c_str(), architecture.c_str());
}
inline std::string explain_layouts(const std::string& descriptor, const std::string& architecture) {
  return detail::text(cubit_explain_layouts, descriptor.c_str(), architecture.c_str());
}

class Device;

/// A sequence of launches recorded by Device::capture and replayed by Device::replay. The graph owns its handle.
/// Destroy a graph before the last copy of its Device.
class Graph {
 public:
  /// Takes ownership of `handle`.
  explicit Graph(cubit_graph* handle) : handle_(handle, &cubit_graph_release) {}
  cubit_graph* handle() const { return handle_.get(); }

 private:
  std::unique_ptr<cubit_graph, void (*)(cubit_graph*)> handle_;
};

/// A device opened by name ("cuda:0", "cpu:sm_80") with memory, streams and graphs. Copies share one handle; the last
/// copy releases the device. See cubit_device_open.
class Device {
 public:
  /// Throws cubit::Error if there is no such device.
  explicit Device(const std::string& name) {
    cubit_device* device = nullptr;
    detail::check(cubit_device_open(name.c_str(), &device));
    handle_.reset(device, &cubit_device_release);
  }

  /// Name, architecture and properties as JSON; see cubit_device_describe.
  std::string describe() const { return detail::text(cubit_device_describe, handle()); }
  /// Allocates device memory that the caller passes to free(). Buffer does both.
  void* allocate(std::size_t bytes) const {
    void* memory = nullptr;
    detail::check(cubit_device_allocate(handle(), bytes, &memory));
    return memory;
  }
  void free(void* memory) const { detail::check(cubit_device_free(handle(), memory)); }
  void fill_zero(void* memory, std::size_t bytes, cubit_stream stream = nullptr) const {
    detail::check(cubit_device_fill_zero(handle(), memory, bytes, stream));
  }
  /// Copies `bytes` bytes to or from the device, in the order of `stream`. Host memory must stay valid until
  /// synchronise(stream) returns.
  void upload(void* dst, const void* src, std::size_t bytes, cubit_stream stream = nullptr) const {
    detail::check(cubit_device_upload(handle(), dst, src, bytes, stream));
  }
  void download(void* dst, const void* src, std::size_t bytes, cubit_stream stream = nullptr) const {
    detail::check(cubit_device_download(handle(), dst, src, bytes, stream));
  }
  void synchronise(cubit_stream stream = nullptr) const { detail::check(cubit_device_synchronise(handle(), stream)); }
  /// Throws Error if the counters of a workspace are not zero; see cubit_device_check_workspace.
  void check_workspace(const void* workspace, cubit_stream stream = nullptr) const {
    detail::check(cubit_device_check_workspace(handle(), workspace, stream));
  }
  /// Selects what to check and count in later launches: a sum of CUBIT_WATCH_ flags; see cubit_device_watch.
  void watch(unsigned what) const { detail::check(cubit_device_watch(handle(), what)); }
  /// Counters of all watched launches since the last call, as JSON; see cubit_device_counters.
  std::string counters() const {
    const char* json = nullptr;
    detail::check(cubit_device_counters(handle(), &json));
    return json;
  }
  /// Creates a non-blocking stream that the caller passes to destroy_stream().
  cubit_stream create_stream() const {
    cubit_stream stream = nullptr;
    detail::check(cubit_stream_create(handle(), &stream));
    return stream;
  }
  void destroy_stream(cubit_stream stream) const { detail::check(cubit_stream_destroy(handle(), stream)); }
  /// Runs `launches` and records the work that `launches` puts on `stream`, without executing the work. If `launches`
  /// throws, the capture ends and the exception is passed on.
  Graph capture(cubit_stream stream, const std::function<void()>& launches) const {
    detail::check(cubit_capture_begin(handle(), stream));
    cubit_graph* graph = nullptr;
    try {
      launches();
    } catch (...) {
      if (cubit_capture_end(handle(), stream, &graph) == CUBIT_OK) cubit_graph_release(graph);
      throw;
    }
    detail::check(cubit_capture_end(handle(), stream, &graph));
    return Graph(graph);
  }
  /// Replays `graph` on `stream`, waits for the end, and returns the milliseconds of the replay.
  double replay(const Graph& graph, cubit_stream stream) const {
    double milliseconds = 0;
    detail::check(cubit_graph_replay(handle(), graph.handle(), stream, &milliseconds));
    return milliseconds;
  }
  cubit_device* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<cubit_device> handle_;
};

/// Device memory of a fixed number of bytes that the destructor frees. A Buffer can be moved but not copied.
class Buffer {
 public:
  Buffer(Device device, std::size_t bytes)
      : device_(std::move(device)), bytes_(bytes), data_(device_.allocate(bytes)) {}
  Buffer(Buffer&& other) noexcept
      : device_(std::move(other.device_)),
        bytes_(std::exchange(other.bytes_, 0)),
        data_(std::exchange(other.data_, nullptr)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (data_ != nullptr) cubit_device_free(device_.handle(), data_);
  }
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Device device_;
  std::size_t bytes_;
  void* data_;
};

/// Device, stream and workspace of a launch. The fields have the meaning of the fields of cubit_launch.
struct LaunchOptions {
  const Device* device = nullptr;  ///< nullptr: the device of the current CUDA context
  cubit_stream stream = nullptr;
  /// Device memory, 256-byte aligned, of at least Kernel::workspace() bytes. Set the first CUBIT_WORKSPACE_ZEROED_BYTES
  /// bytes to zero before the first use.
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  bool overlap = false;  ///< start while the previous kernel in the stream still runs

  cubit_launch c() const {
    return {sizeof(cubit_launch), device == nullptr ? nullptr : device->handle(), stream, workspace, workspace_bytes,
            overlap ? 1 : 0};
  }
};

/// A reference-counted handle to a compiled kernel, or to a set of kernels of which each launch takes one. Copies share
/// the kernel. A Kernel may outlive its Engine.
class Kernel {
 public:
  /// Takes over one reference to `handle`, which the destructor releases.
  explicit Kernel(cubit_kernel* handle) : handle_(handle) {}
  Kernel(const Kernel& other) : handle_(other.handle_) { cubit_kernel_retain(handle_); }
  Kernel(Kernel&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Kernel& operator=(Kernel other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Kernel() { cubit_kernel_release(handle_); }

  /// Registers, code size, threads and keys as JSON; see cubit_kernel_describe.
  std::string describe() const { return detail::text(cubit_kernel_describe, handle_); }
  /// The number of kernels behind this handle (1, or the members of a set), and each of them; see cubit_kernel_member.
  std::size_t member_count() const {
    std::size_t count = 0;
    detail::check(cubit_kernel_member_count(handle_, &count));
    return count;
  }
  Kernel member(std::size_t index) const {
    cubit_kernel* member = nullptr;
    detail::check(cubit_kernel_member(handle_, index, &member));
    return Kernel(member);
  }
  /// The index of the member that a launch with these arguments takes; see cubit_kernel_choose.
  template <class Arguments>
  std::size_t choose(const Arguments& arguments, const Device* device = nullptr) const {
    std::size_t index = 0;
    detail::check(
        cubit_kernel_choose(handle_, address(arguments), device == nullptr ? nullptr : device->handle(), &index));
    return index;
  }
  /// The kernel's code, a cubin or a CPU device's PTX text. The bytes live as long as the kernel. Not for a set.
  std::span<const std::byte> cubin() const {
    const void* bytes = nullptr;
    std::size_t size = 0;
    detail::check(cubit_kernel_cubin(handle_, &bytes, &size));
    return {static_cast<const std::byte*>(bytes), size};
  }
  /// Loads the kernel, with all members of a set, onto a device, by default the device of the current CUDA context, so
  /// that launches can be captured.
  void prepare() const { detail::check(cubit_kernel_prepare(handle_, nullptr)); }
  void prepare(const Device& device) const { detail::check(cubit_kernel_prepare(handle_, device.handle())); }

  /// Bytes of workspace for every launch with at most this batch, max_length, window and m; see
  /// cubit_kernel_workspace. `Arguments` is the operator's public struct, or the pointer that Problem::arguments of
  /// <cubit/check.hpp> returned.
  template <class Arguments>
  std::size_t workspace(const Arguments& arguments, const Device* device = nullptr) const {
    std::size_t bytes = 0;
    detail::check(
        cubit_kernel_workspace(handle_, address(arguments), device == nullptr ? nullptr : device->handle(), &bytes));
    return bytes;
  }
  /// Launches the kernel on options.stream. `arguments` is read during the call only; see cubit_kernel_launch.
  template <class Arguments>
  void launch(const Arguments& arguments, const LaunchOptions& options) const {
    const cubit_launch launch = options.c();
    detail::check(cubit_kernel_launch(handle_, address(arguments), &launch));
  }
  /// Launches a kernel that Engine::get made from a cubit_source. `parameters` is the kernel's single by-value
  /// argument. The launch ignores the workspace and `overlap` of `options`; see cubit_kernel_launch_raw.
  template <class Parameters>
  void launch_raw(std::uint32_t grid_x, std::uint32_t grid_y, std::uint32_t grid_z, const Parameters& parameters,
                  const LaunchOptions& options) const {
    const std::uint32_t grid[3] = {grid_x, grid_y, grid_z};
    const cubit_launch launch = options.c();
    detail::check(cubit_kernel_launch_raw(handle_, grid, &parameters, sizeof(Parameters), &launch));
  }
  cubit_kernel* handle() const { return handle_; }

 private:
  template <class Arguments>
  static const void* address(const Arguments& arguments) {
    if constexpr (std::is_pointer_v<Arguments>) {
      return arguments;
    } else {
      return &arguments;
    }
  }

  cubit_kernel* handle_;
};

/// Receives log lines, possibly on several threads at once; see cubit_log_function.
using LogFunction = std::function<void(cubit_log_level, std::string_view)>;

/// Options of an Engine; the fields have the meaning of the fields of cubit_engine_options.
struct EngineOptions {
  const char* cache_dir = nullptr;  ///< nullptr: the folder that the environment names; "": no disk cache
  const char* nvrtc_path = nullptr;
  cubit_compile_policy compile = CUBIT_COMPILE_FROM_ENVIRONMENT;
  LogFunction log = {};
  const char* system_caches = nullptr;  ///< nullptr: the folders that the environment names
  const char* cache_trust = nullptr;    ///< nullptr: the users or the group that the environment names
  cubit_compiler_policy compiler = CUBIT_COMPILER_FROM_ENVIRONMENT;
  int lock_wait_seconds = 0;          ///< 0: the environment's, else 120
  std::uint64_t cache_max_bytes = 0;  ///< 0: the environment's, else no limit
  unsigned cache_max_days = 0;        ///< 0: the environment's, else no limit
  const char* bundles = nullptr;      ///< nullptr: the files that the environment names
  std::vector<cubit_bundle_memory> bundle_memory = {};
  const char* public_keys = nullptr;  ///< nullptr: the keys that the environment names
  bool allow_local_compile = false;   ///< matters only with public keys
};

/// Makes kernels: looks in memory, then on disk, and then compiles. An Engine is thread-safe and serves all devices.
class Engine {
 public:
  explicit Engine(EngineOptions options = {}) : log_(std::make_unique<LogFunction>(std::move(options.log))) {
    cubit_engine_options c{};
    c.size = sizeof c;
    c.cache_dir = options.cache_dir;
    c.nvrtc_path = options.nvrtc_path;
    c.compile = options.compile;
    c.system_caches = options.system_caches;
    c.cache_trust = options.cache_trust;
    c.compiler = options.compiler;
    c.lock_wait_seconds = options.lock_wait_seconds;
    c.cache_max_bytes = options.cache_max_bytes;
    c.cache_max_days = options.cache_max_days;
    c.bundles = options.bundles;
    c.bundle_memory = options.bundle_memory.data();
    c.bundle_memory_count = options.bundle_memory.size();
    c.public_keys = options.public_keys;
    c.allow_local_compile = options.allow_local_compile ? 1 : 0;
    if (*log_) {
      c.log = [](void* context, cubit_log_level level, const char* line) {
        (*static_cast<LogFunction*>(context))(level, line);
      };
      c.log_context = log_.get();
    }
    cubit_engine* engine = nullptr;
    detail::check(cubit_engine_create(&c, &engine));
    handle_.reset(engine);
  }

  /// Returns the kernel of `descriptor` for the device of the current CUDA context, or for the named architecture; see
  /// cubit_engine_get.
  Kernel get(const std::string& descriptor) const { return get_for(descriptor, nullptr); }
  Kernel get(const std::string& descriptor, const std::string& architecture) const {
    return get_for(descriptor, architecture.c_str());
  }
  /// Returns the kernel of a user's own source; see cubit_source.
  Kernel get(const cubit_source& source, const std::string& architecture) const {
    cubit_kernel* kernel = nullptr;
    detail::check(cubit_engine_get_source(handle(), &source, architecture.c_str(), &kernel));
    return Kernel(kernel);
  }
  /// Makes and loads the kernels of all descriptors for all devices, so that later launches never load code. An empty
  /// `devices` means the device of the current CUDA context.
  void prepare(std::span<const std::string> descriptors, std::span<const Device> devices = {}) const {
    std::vector<const char*> texts;
    for (const std::string& descriptor : descriptors) texts.push_back(descriptor.c_str());
    std::vector<cubit_device*> handles;
    for (const Device& device : devices) handles.push_back(device.handle());
    detail::check(cubit_engine_prepare(handle(), texts.data(), texts.size(), handles.data(), handles.size()));
  }
  /// Numbers of requests by outcome since the engine's creation; see cubit_counters.
  cubit_counters counters() const {
    cubit_counters counters{};
    counters.size = sizeof counters;
    detail::check(cubit_engine_counters(handle(), &counters));
    return counters;
  }
  /// The last warnings of the log as JSON, also without a log function; see cubit_engine_warnings.
  std::string warnings() const {
    const char* json = nullptr;
    detail::check(cubit_engine_warnings(handle(), &json));
    return json;
  }
  /// True if get() would compile nothing; see cubit_engine_is_cached.
  bool is_cached(const std::string& descriptor, const std::string& architecture) const {
    int cached = 0;
    detail::check(cubit_engine_is_cached(handle(), descriptor.c_str(), architecture.c_str(), &cached));
    return cached != 0;
  }
  /// Says why kernels are not in a store, as JSON; see cubit_engine_explain_miss.
  std::string explain_miss(const std::string& descriptor, const std::string& architecture) const {
    return detail::text(cubit_engine_explain_miss, handle(), descriptor.c_str(), architecture.c_str());
  }
  /// The engine's stores with their counters as JSON; see cubit_engine_stores.
  std::string stores() const { return detail::text(cubit_engine_stores, handle()); }
  /// Deletes what is beyond the limits, and describes the folder, as JSON; see cubit_cache_prune and cubit_cache_stats.
  std::string cache_prune(std::uint64_t max_bytes, unsigned max_days) const {
    return detail::text(cubit_cache_prune, handle(), max_bytes, max_days);
  }
  std::string cache_stats() const { return detail::text(cubit_cache_stats, handle()); }
  /// Stores the code of a kernel in the engine's cache folder; see cubit_cache_add.
  void cache_add(const Kernel& kernel) const { detail::check(cubit_cache_add(handle(), kernel.handle())); }
  /// The disk cache's entries as JSON; see cubit_cache_list, cubit_cache_verify and cubit_cache_clear.
  std::string cache_list() const { return detail::text(cubit_cache_list, handle()); }
  std::string cache_verify() const { return detail::text(cubit_cache_verify, handle()); }
  /// Deletes all entries of the disk cache and returns their number.
  std::size_t cache_clear() const {
    std::size_t removed = 0;
    detail::check(cubit_cache_clear(handle(), &removed));
    return removed;
  }
  cubit_engine* handle() const { return handle_.get(); }

 private:
  struct Release {
    void operator()(cubit_engine* engine) const { cubit_engine_release(engine); }
  };
  Kernel get_for(const std::string& descriptor, const char* architecture) const {
    cubit_kernel* kernel = nullptr;
    detail::check(cubit_engine_get(handle(), descriptor.c_str(), architecture, &kernel));
    return Kernel(kernel);
  }

  std::unique_ptr<LogFunction> log_;
  std::unique_ptr<cubit_engine, Release> handle_;
};

/// The descriptor with its performance fields chosen for launches of these sizes; see cubit_suggest.
inline std::string suggest(const std::string& descriptor, const Numbers& sizes, const std::string& architecture,
                           int multiprocessors, std::int64_t memory_bytes_per_second = 0) {
  const auto c = detail::c_numbers(sizes);
  return detail::text(cubit_suggest, descriptor.c_str(), c.data(), c.size(), architecture.c_str(), multiprocessors,
                      memory_bytes_per_second);
}

}  // namespace cubit
