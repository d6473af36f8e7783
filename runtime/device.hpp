// What a launch needs of a device, whatever executes it. CUDA is the first implementation (runtime/cuda/).
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

/// Fixed for the life of the device; all that grid, split and workspace computations may depend on.
struct DeviceFacts {
  std::string name;  ///< "NVIDIA H200"
  const codegen::Architecture* architecture = nullptr;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  int clock_khz = 0;                          ///< the highest of an SM; 0 where there is none
  std::int64_t memory_bytes_per_second = 0;   ///< as the memory's clock and width have it; 0: not known
  int memory_bus_bits = 0;                    ///< wires between it and its memory; 0: not known
  int driver_version = 0;                     ///< as the driver gives it: 13000 for 13.0; 0 where there is none
  codegen::Code code = codegen::Code::cubin;  ///< what `load` takes
};

struct LaunchShape {
  std::array<unsigned, 3> grid{1, 1, 1};
  unsigned threads = 0;
  unsigned dynamic_shared_memory = 0;
  unsigned cluster_blocks = 1;  ///< along x; grid[0] is a multiple of it
  bool overlap = false;         ///< begin before the kernel ahead in the stream has ended; the kernel itself waits
};

using Stream = void*;  ///< a CUstream; nullptr is the legacy default stream

/// A kernel's code made executable on one device.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
};

/// A recorded sequence of launches.
class Graph {
 public:
  virtual ~Graph() = default;
};

/// What a device does beside executing: see cubit_device_watch.
struct Watched {
  bool memory = false;
  bool counters = false;
};

/// Every method throws Failure(device_error) that names the driver call and its error.
/// Memory, stream, capture and graph methods make the device's context current for the call and restore the caller's;
/// `load` and `launch` work in the context that this object stands for and expect it to be current.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;

  /// Makes the device's context current on this thread; false if it was, and then no leave() is owed. Use
  /// CurrentDevice.
  virtual bool enter() { return false; }
  virtual void leave() noexcept {}

  virtual std::unique_ptr<LoadedKernel> load(const Artifact& artifact, const codegen::LaunchFacts& launch) = 0;
  virtual void launch(const LoadedKernel& kernel, const LaunchShape& shape, std::span<const std::byte> parameters,
                      Stream stream) = 0;
  /// The map as this device's kernels read it. Allocates nothing and touches no stream. Throws
  /// Failure(invalid_argument) for a map that breaks a rule, Failure(unsupported) where there are no tensor maps.
  virtual EncodedTensorMap encode(const TensorMap& map) = 0;
  /// True while `stream` records a graph.
  virtual bool capturing(Stream stream) = 0;

  virtual void* allocate(std::size_t bytes) = 0;
  /// A CPU device throws Failure(invalid_argument) for what is not, or no longer, memory of its own.
  virtual void release(void* memory) = 0;
  virtual void fill_zero(void* memory, std::size_t bytes, Stream stream) = 0;
  virtual void copy_to_device(void* dst, const void* src, std::size_t bytes, Stream stream) = 0;
  virtual void copy_to_host(void* dst, const void* src, std::size_t bytes, Stream stream) = 0;
  virtual void synchronise(Stream stream) = 0;
  virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) = 0;
  virtual void begin_capture(Stream stream) = 0;
  virtual std::unique_ptr<Graph> end_capture(Stream stream) = 0;
  /// Replays, waits, and returns the milliseconds between events around it.
  virtual double replay(Graph& graph, Stream stream) = 0;

  /// For the launches from now on. Throws Failure(unsupported) on a device that cannot watch.
  virtual void watch(Watched what);
  /// The counters of the launches since the last call, one JSON object each.
  virtual std::vector<std::string> take_counters() { return {}; }

  /// Index into per-kernel tables of loaded code; unique per live device of the process, small.
  int slot() const { return slot_; }
  /// How many devices had this slot before: what was loaded for a dead device is not taken for this one's.
  std::uint64_t generation() const { return generation_; }
  /// Unique per device of the process, dead ones included.
  std::uint64_t identity() const { return generation_ << 32 | static_cast<std::uint64_t>(slot_); }

 protected:
  explicit Device(int slot, std::uint64_t generation = 0) : slot_(slot), generation_(generation) {}

 private:
  int slot_;
  std::uint64_t generation_;
};

inline void Device::watch(Watched what) {
  if (!what.memory && !what.counters) return;
  throw Failure(Status::unsupported, "a watch on " + facts().name, "only a CPU device watches its launches",
                "open \"cpu:sm_80\" with any architecture, or use compute-sanitizer and a profiler");
}

/// Makes a device current for a scope and restores the caller's.
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
