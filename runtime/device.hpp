// The Device interface: everything that an operator's launch needs of a device. CUDA contexts (runtime/cuda/) and the
// CPU device (runtime/cpu/) implement it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "runtime/cache/artifact.hpp"
#include "runtime/tensor_map.hpp"

namespace cubit::runtime {

/// Facts that never change while the device exists. Grids, splits and workspace sizes depend on these facts alone.
struct DeviceFacts {
  std::string name;  ///< "NVIDIA H200"
  /// Of a GPU that cubit does not know: the newest architecture whose PTX runs there. `code` is then Code::ptx.
  const codegen::Architecture* architecture = nullptr;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  int clock_khz = 0;                          ///< highest SM clock; 0 for a CPU device
  std::int64_t memory_bytes_per_second = 0;   ///< computed from memory clock and bus width; 0: not known
  int memory_bus_bits = 0;                    ///< width of the memory bus; 0: not known
  int capability = 0;                         ///< compute capability times 10: 90 for 9.0; 0 for a CPU device
  int driver_version = 0;                     ///< as the driver reports it: 13000 for 13.0; 0 for a CPU device
  codegen::Code code = codegen::Code::cubin;  ///< the kind of code to request; a GPU also loads PTX
};

/// Grid, block and launch attributes of one launch.
struct LaunchShape {
  std::array<unsigned, 3> grid{1, 1, 1};
  unsigned threads = 0;
  unsigned dynamic_shared_memory = 0;
  unsigned cluster_blocks = 1;  ///< cluster size along x; grid[0] is a multiple of this
  bool overlap = false;         ///< the kernel may start before the previous kernel in the stream has ended; the kernel
                                ///< itself waits for its data
};

using Stream = void*;  ///< a CUstream; nullptr is the legacy default stream

/// A kernel's code, loaded and executable on one device.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
};

/// A recorded sequence of launches.
class Graph {
 public:
  virtual ~Graph() = default;
};

/// What a device checks and counts in its launches; see cubit_device_watch.
struct Watched {
  bool memory = false;
  bool counters = false;
};

/// A device that loads and launches kernels. Every method throws Failure(device_error), which names the driver call and
/// its error. Memory, stream, capture and graph methods make the device's context current during the call and restore
/// the caller's. load() and launch() work in the context of this object and expect that this context is current.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;

  /// Makes the device's context current on this thread. Returns false if the context was current already; the caller
  /// must then not call leave(). Use CurrentDevice instead of calling these functions.
  virtual bool enter() { return false; }
  virtual void leave() noexcept {}

  virtual std::unique_ptr<LoadedKernel> load(const Artifact& artifact, const codegen::LaunchFacts& launch) = 0;
  virtual void launch(const LoadedKernel& kernel, const LaunchShape& shape, std::span<const std::byte> parameters,
                      Stream stream) = 0;
  /// Encodes a tensor map for this device's kernels. The call allocates nothing and uses no stream. Throws
  /// Failure(invalid_argument) if the map breaks a rule, and Failure(unsupported) if the device has no tensor maps.
  virtual EncodedTensorMap encode(const TensorMap& map) = 0;
  /// True while `stream` is being captured into a graph.
  virtual bool capturing(Stream stream) = 0;

  virtual void* allocate(std::size_t bytes) = 0;
  /// Frees memory from allocate(). A CPU device throws Failure(invalid_argument) for memory that it does not own or
  /// that was freed before.
  virtual void release(void* memory) = 0;
  virtual void fill_zero(void* memory, std::size_t bytes, Stream stream) = 0;
  virtual void copy_to_device(void* dst, const void* src, std::size_t bytes, Stream stream) = 0;
  virtual void copy_to_host(void* dst, const void* src, std::size_t bytes, Stream stream) = 0;
  virtual void synchronise(Stream stream) = 0;
  /// Throws Failure(invalid_argument) if one of these bytes is not zero after the work on the stream. The call waits
  /// for the stream of a GPU. A CPU device accepts the call during a capture, and checks at each replay.
  virtual void require_zero(const void* memory, std::size_t bytes, Stream stream);
  virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) = 0;
  virtual void begin_capture(Stream stream) = 0;
  virtual std::unique_ptr<Graph> end_capture(Stream stream) = 0;
  /// Replays the graph, waits, and returns the milliseconds between two events around the replay.
  virtual double replay(Graph& graph, Stream stream) = 0;

  /// Selects what to watch in later launches. Throws Failure(unsupported) if the device cannot watch launches.
  virtual void watch(Watched what);
  /// Returns and removes the counters of the launches since the last call, one JSON object per launch.
  virtual std::vector<std::string> take_counters() { return {}; }

  /// Index into per-kernel tables of loaded code. The index is small, and unique among the live devices of the process.
  int slot() const { return slot_; }
  /// Number of earlier devices with this slot. The generation distinguishes code that was loaded for a dead device in
  /// the same slot.
  std::uint64_t generation() const { return generation_; }
  /// Unique among all devices of the process, including dead devices.
  std::uint64_t identity() const { return generation_ << 32 | static_cast<std::uint64_t>(slot_); }

 protected:
  explicit Device(int slot, std::uint64_t generation = 0) : slot_(slot), generation_(generation) {}

 private:
  int slot_;
  std::uint64_t generation_;
};

/// Throws Failure(invalid_argument) if a counter of a workspace is not zero.
void require_zero_counters(std::span<const unsigned> counters);

inline void Device::require_zero(const void* memory, std::size_t bytes, Stream stream) {
  std::vector<unsigned> counters(bytes / sizeof(unsigned));
  copy_to_host(counters.data(), memory, counters.size() * sizeof(unsigned), stream);
  synchronise(stream);
  require_zero_counters(counters);
}

inline void require_zero_counters(std::span<const unsigned> counters) {
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (counters[i] == 0) continue;
    throw Failure(Status::invalid_argument,
                  "a workspace whose counter " + std::to_string(i) + " is " + std::to_string(counters[i]),
                  "the counters at its start must be zero between launches, and results would be wrong",
                  "fill its first CUBIT_WORKSPACE_ZEROED_BYTES bytes with zero before the first use and after a launch "
                  "that failed, and share it with no launch that may run at the same time");
  }
}

inline void Device::watch(Watched what) {
  if (!what.memory && !what.counters) return;
  throw Failure(Status::unsupported, "a watch on " + facts().name, "only a CPU device watches its launches",
                "open \"cpu:sm_80\" with any architecture, or use compute-sanitizer and a profiler");
}

/// Makes a device current in a scope and restores the caller's device at the end.
class CurrentDevice {
 public:
  explicit CurrentDevice(Device& device) : device_(device), entered_(device.enter()) {}
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (entered_) device_.leave();
  }

 private:
  Device& device_;
  bool entered_;
};

}  // namespace cubit::runtime
