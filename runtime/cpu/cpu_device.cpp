// Implements the CPU device: memory, streams and graphs, and loading libcubit_cpu.
#include "runtime/cpu/cpu_device.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "runtime/cpu/allocations.hpp"
#include "runtime/cpu/encoded_map.hpp"
#include "runtime/cpu/interface.h"
#include "runtime/dynamic_library.hpp"
#include "runtime/kernel.hpp"

namespace cubit::runtime {
namespace cpu {
namespace {

constexpr const char* kLibrary = "libcubit_cpu.so";
constexpr int kMultiprocessors = 4;
constexpr std::int64_t kMemoryBytesPerSecond = std::int64_t{1} << 40;  // an invented number, so that performance models
                                                                       // work for this device too
constexpr int kMemoryBusBits = 5120;  // as on an H100, so that blocks begin in the middle of segments
constexpr std::size_t kCacheBytes = std::size_t{4} << 20;
constexpr std::size_t kAlignment = 256;  // as for cuMemAlloc
/// Bytes after each allocation that belong to no allocation, so that an access beyond the end is reported, also if the
/// next allocation follows in the process's heap. A pipeline stage of a kernel is smaller. Nobody touches these bytes,
/// so they take address space alone.
constexpr std::size_t kRedZone = std::size_t{1} << 20;
constexpr int kUnwritten = 0xff;  // NaN in every format

/// The executor, or why there is none.
struct Executor {
  std::optional<DynamicLibrary> library;
  const CubitCpuInterface* functions = nullptr;
  std::string trouble;
};

/// The folder of the library that contains this code.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const auto path = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::string() : path.parent_path().string();
}

Executor open_executor() {
  Executor executor;
  std::string why;
  const std::string folder = own_folder();
  if (!folder.empty()) executor.library = DynamicLibrary::open(folder + "/" + kLibrary, why);
  if (!executor.library) executor.library = DynamicLibrary::open(kLibrary, why);
  if (!executor.library) {
    executor.trouble =
        fmt::format("{} is neither in the folder of libcubit nor on the loader's path ({})", kLibrary, why);
    return executor;
  }
  const auto function =
      reinterpret_cast<CubitCpuInterfaceFunction>(executor.library->symbol(CUBIT_CPU_INTERFACE_SYMBOL));
  const CubitCpuInterface* const found = function == nullptr ? nullptr : function();
  if (found == nullptr || found->version != CUBIT_CPU_INTERFACE_VERSION) {
    executor.trouble = fmt::format("{} is from another build", executor.library->path());
  } else {
    executor.functions = found;
  }
  return executor;
}

/// The executor is opened once per process and never closed, because kernels may be released while the process ends.
const Executor& executor() {
  static const Executor* const instance = new Executor(open_executor());
  return *instance;
}

/// Collects the executor's failure report, to throw it on this side of the C interface.
struct Reported {
  std::optional<Failure> failure;
  std::string counters;
  static void take_counters(void* context, const char* json) { static_cast<Reported*>(context)->counters = json; }
  static void take(void* context, int status, const char* given, const char* rule, const char* remedy) {
    static_cast<Reported*>(context)->failure.emplace(static_cast<Status>(status), given, rule, remedy);
  }
  [[noreturn]] void raise() const {
    if (failure) throw Failure(*failure);
    throw Failure(Status::internal, "the CPU device", "the executor failed without a reason");
  }
};

class CpuKernel final : public LoadedKernel {
 public:
  CpuKernel(const CubitCpuInterface& functions, CubitCpuProgram* program) : functions_(functions), program_(program) {}
  CpuKernel(const CpuKernel&) = delete;
  CpuKernel& operator=(const CpuKernel&) = delete;
  ~CpuKernel() override { functions_.unload(program_); }

  const CubitCpuProgram* program() const { return program_; }

 private:
  const CubitCpuInterface& functions_;
  CubitCpuProgram* program_;
};

using Work = std::function<void()>;

class CpuGraph final : public Graph {
 public:
  explicit CpuGraph(std::vector<Work> steps) : steps_(std::move(steps)) {}
  void run() const {
    for (const Work& step : steps_) step();
  }

 private:
  std::vector<Work> steps_;
};

/// The object behind a Stream. The default stream has no object and is never captured.
struct CpuStream {
  bool capturing = false;
  std::vector<Work> steps;
};

/// The live streams of a device. Other pointers are refused before anything is read through them.
class Streams {
 public:
  Stream create() {
    auto made = std::make_unique<CpuStream>();
    CpuStream* const stream = made.get();
    const std::lock_guard lock(mutex_);
    streams_.emplace(stream, std::move(made));
    return stream;
  }
  void destroy(Stream stream) {
    const std::lock_guard lock(mutex_);
    if (streams_.erase(stream) == 0) refuse(stream);
  }
  CpuStream& at(Stream stream) {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(stream);
    if (found == streams_.end()) refuse(stream);
    return *found->second;
  }

 private:
  [[noreturn]] static void refuse(Stream stream) {
    throw Failure(Status::invalid_argument, fmt::format("a stream at {:#x}", reinterpret_cast<std::uintptr_t>(stream)),
                  "this is not a stream of this CPU device, or it was destroyed before",
                  "give NULL, or a stream from cubit_stream_create of this device");
  }

  std::mutex mutex_;
  std::map<Stream, std::unique_ptr<CpuStream>> streams_;
};

/// Assigns slots to CPU devices in the kernels' tables. This is the one registry of this file.
class Slots {
 public:
  struct Taken {
    int index;
    std::uint64_t generation;
  };
  Taken take() {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      used_[i] = true;
      return {static_cast<int>(i), generations_[i]++};
    }
    throw Failure(Status::unsupported, "a CPU device",
                  fmt::format("cubit serves at most {} open CPU devices per process", kMaxCpuDevices),
                  "release devices that are not needed");
  }
  void give_back(int index) {
    const std::lock_guard lock(mutex_);
    used_[static_cast<std::size_t>(index)] = false;
  }
  static Slots& instance() {
    static auto* const slots = new Slots;
    return *slots;
  }

 private:
  std::mutex mutex_;
  std::array<bool, kMaxCpuDevices> used_{};
  std::array<std::uint64_t, kMaxCpuDevices> generations_{};
};

class CpuDevice final : public Device {
 public:
  CpuDevice(Slots::Taken slot, const CubitCpuInterface& functions, DeviceFacts facts)
      : Device(kMaxDevices + slot.index, slot.generation),
        index_(slot.index),
        functions_(functions),
        facts_(std::move(facts)) {}
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;
  ~CpuDevice() override { Slots::instance().give_back(index_); }

  const DeviceFacts& facts() const override { return facts_; }

  std::unique_ptr<LoadedKernel> load(const Artifact& artifact, const codegen::LaunchFacts&) override {
    Reported reported;
    CubitCpuProgram* const program =
        functions_.load(reinterpret_cast<const char*>(artifact.cubin.data()), artifact.cubin.size(),
                        artifact.entry_point.c_str(), Reported::take, &reported);
    if (program == nullptr) reported.raise();
    return std::make_unique<CpuKernel>(functions_, program);
  }

  void launch(const LoadedKernel& kernel, const LaunchShape& shape, std::span<const std::byte> parameters,
              Stream stream) override {
    const auto& loaded = static_cast<const CpuKernel&>(kernel);
    if (!capturing(stream)) return execute(loaded, shape, parameters);
    std::vector<std::byte> kept(parameters.begin(), parameters.end());
    of(stream).steps.emplace_back([this, &loaded, shape, kept = std::move(kept)] { execute(loaded, shape, kept); });
  }

  EncodedTensorMap encode(const TensorMap& map) override {
    validate(map);
    return cpu::encode(map);
  }

  void watch(Watched what) override {
    const std::lock_guard lock(mutex_);
    watched_ = what;
    allocations_.watch(what.memory);
  }
  std::vector<std::string> take_counters() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(counted_, {});
  }

  bool capturing(Stream stream) override { return stream != nullptr && of(stream).capturing; }

  void* allocate(std::size_t bytes) override {
    const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment + kRedZone;
    void* const memory = is_there(bytes) ? std::aligned_alloc(kAlignment, whole) : nullptr;
    if (memory != nullptr) {
      std::memset(memory, kUnwritten, bytes);
      allocations_.add(memory, bytes);
      return memory;
    }
    throw Failure(Status::device_error, fmt::format("{} bytes", bytes), "the CPU device has no memory left",
                  "free memory, or use a smaller case");
  }
  void release(void* memory) override {
    if (!allocations_.remove(memory)) {
      throw Failure(Status::invalid_argument, fmt::format("memory at {:#x}", reinterpret_cast<std::uintptr_t>(memory)),
                    "this is not memory of this CPU device, or it was freed before",
                    "give each pointer from this device's cubit_device_allocate once");
    }
    std::free(memory);
  }
  void fill_zero(void* memory, std::size_t bytes, Stream stream) override {
    run(stream, memory, bytes, [=, this] {
      std::memset(memory, 0, bytes);
      allocations_.mark(memory, bytes);
    });
  }
  void copy_to_device(void* dst, const void* src, std::size_t bytes, Stream stream) override {
    run(stream, dst, bytes, [=, this] {
      std::memcpy(dst, src, bytes);
      allocations_.mark(dst, bytes);
    });
  }
  void copy_to_host(void* dst, const void* src, std::size_t bytes, Stream stream) override {
    run(stream, src, bytes, [=] { std::memcpy(dst, src, bytes); });
  }
  void require_zero(const void* memory, std::size_t bytes, Stream stream) override {
    run(stream, memory, bytes, [=] {
      require_zero_counters({static_cast<const unsigned*>(memory), bytes / sizeof(unsigned)});
    });
  }
  void synchronise(Stream stream) override { capturing(stream); }  // refuses a stream of another device
  Stream create_stream() override { return streams_.create(); }
  void destroy_stream(Stream stream) override { streams_.destroy(stream); }

  void begin_capture(Stream stream) override {
    if (capturing(stream)) throw Failure(Status::device_error, "this stream", "the stream is being captured already");
    of(stream).capturing = true;
  }
  std::unique_ptr<Graph> end_capture(Stream stream) override {
    if (!capturing(stream)) throw Failure(Status::device_error, "this stream", "the stream is not being captured");
    of(stream).capturing = false;
    return std::make_unique<CpuGraph>(std::exchange(of(stream).steps, {}));
  }
  double replay(Graph& graph, Stream stream) override {
    capturing(stream);  // refuses a stream of another device
    const auto start = std::chrono::steady_clock::now();
    static_cast<const CpuGraph&>(graph).run();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  CpuStream& of(Stream stream) { return streams_.at(stream); }

  /// Whether the system still has `bytes` of memory. Only large allocations are checked, because the memory of one
  /// allocation is written at once.
  static bool is_there(std::size_t bytes) {
    constexpr std::size_t kLittle = std::size_t{64} << 20;
    return bytes <= kLittle ||
           bytes <= std::min<std::size_t>(available_memory(), std::numeric_limits<std::ptrdiff_t>::max());
  }

  Watched watched() {
    const std::lock_guard lock(mutex_);
    return watched_;
  }

  /// Runs or records work on memory of this device. Recorded work checks the memory again, because it may have been
  /// freed before the replay.
  void run(Stream stream, const void* memory, std::size_t bytes, Work work) {
    const bool is_recorded = capturing(stream);
    if (bytes == 0) return;
    allocations_.require(memory, bytes);
    if (!is_recorded) return work();
    of(stream).steps.emplace_back([=, this, work = std::move(work)] {
      allocations_.require(memory, bytes);
      work();
    });
  }

  void execute(const CpuKernel& kernel, const LaunchShape& shape, std::span<const std::byte> parameters) {
    const Allocations::Snapshot memory = allocations_.snapshot();
    const Watched watched = this->watched();
    const CubitCpuLaunch launch = {.grid = {shape.grid[0], shape.grid[1], shape.grid[2]},
                                   .threads = shape.threads,
                                   .dynamic_shared_memory = shape.dynamic_shared_memory,
                                   .cluster_blocks = shape.cluster_blocks,
                                   .parameters = parameters.data(),
                                   .parameter_bytes = parameters.size(),
                                   .memory = memory.ranges.data(),
                                   .memory_count = memory.ranges.size(),
                                   .check = watched.memory ? 1 : 0,
                                   .counted = watched.counters ? Reported::take_counters : nullptr};
    Reported reported;
    if (functions_.execute(kernel.program(), &launch, Reported::take, &reported) == 0) reported.raise();
    const std::lock_guard lock(mutex_);
    if (watched.counters) counted_.push_back(std::move(reported.counters));
  }

  int index_;
  const CubitCpuInterface& functions_;
  DeviceFacts facts_;
  Allocations allocations_;
  Streams streams_;
  std::mutex mutex_;  ///< protects the members below
  Watched watched_;
  std::vector<std::string> counted_;
};

std::size_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
}

}  // namespace
}  // namespace cpu

std::string cpu_trouble() { return cpu::executor().trouble; }

DeviceFacts cpu_device_facts(const codegen::Architecture& architecture) {
  return {.name = fmt::format("this machine's processor, executing {}'s PTX", architecture.name),
          .architecture = &architecture,
          .multiprocessors = cpu::kMultiprocessors,
          .memory_bytes = cpu::memory_bytes(),
          .l2_bytes = cpu::kCacheBytes,
          .clock_khz = 0,
          .memory_bytes_per_second = cpu::kMemoryBytesPerSecond,
          .memory_bus_bits = cpu::kMemoryBusBits,
          .driver_version = 0,
          .code = codegen::Code::ptx};
}

std::shared_ptr<Device> open_cpu_device(std::string_view architecture) {
  const codegen::Architecture& row = codegen::find_architecture(architecture);
  const cpu::Executor& executor = cpu::executor();
  if (executor.functions == nullptr) {
    throw Failure(Status::driver_unavailable, fmt::format("device \"{}{}\"", kCpuPrefix, architecture),
                  executor.trouble, "install libcubit_cpu with libcubit; it is built where LLVM 19 is found");
  }
  const auto slot = cpu::Slots::instance().take();
  return std::make_shared<cpu::CpuDevice>(slot, *executor.functions, cpu_device_facts(row));
}

}  // namespace cubit::runtime
