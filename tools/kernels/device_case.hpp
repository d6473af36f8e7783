// Holds a problem in device memory, in one or several copies, and launches kernels on it.
#pragma once

#include <cstddef>
#include <cubit/check.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace cubit::tools {

/// A stream that its destructor destroys.
class OwnedStream {
 public:
  explicit OwnedStream(Device device) : device_(std::move(device)), stream_(device_.create_stream()) {}
  ~OwnedStream() { cubit_stream_destroy(device_.handle(), stream_); }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  operator cubit_stream() const { return stream_; }

 private:
  Device device_;
  cubit_stream stream_;
};

/// One allocation that holds the tensors of a run's cases, one case after the other. An engine holds its KV cache in
/// the same way, so a case finds memory that earlier cases have used. The arena grows by allocating anew.
class DeviceArena {
 public:
  /// `least`: bytes that the first case allocates at least.
  DeviceArena(const Device& device, std::size_t least) : device_(device), least_(least) {}

  /// Makes room for `bytes` in total, and releases everything that was taken.
  void reset(std::size_t bytes);
  /// Takes a part of the arena, aligned like an allocation. Throws std::bad_alloc if reset has not made enough room.
  void* take(std::size_t bytes);
  /// The room that `bytes` occupy after alignment.
  static std::size_t room_for(std::size_t bytes);
  std::size_t bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  const Device& device_;
  std::size_t least_;
  std::optional<Buffer> memory_;  ///< empty before the first case, and after a case that found no memory
  std::size_t taken_ = 0;
};

using HostTensors = std::vector<std::vector<std::byte>>;

class DeviceCase {
 public:
  /// Allocates `copies` copies of all tensors and uploads the inputs to each copy. Memory comes from the arena; without
  /// an arena each tensor has an allocation of its own, so that reads beyond a tensor are detected. Outputs get the
  /// content that the problem prescribes before the launch. Other outputs get bytes 0xff, which are NaN in every
  /// floating-point type, so an element that no kernel writes is visible. The arena outlives the case and holds one
  /// case at a time.
  DeviceCase(const Device& device, const Problem& problem, int copies, cubit_stream stream,
             DeviceArena* arena = nullptr);

  /// Allocates the workspace that `kernel` needs for this case. Only the bytes that must be zero are zeroed, so that
  /// reads of bytes that the kernel has not written are detected.
  void allocate_workspace(const Kernel& kernel);
  /// The kernel itself, or the member of the set that launches of this case take.
  Kernel taken(const Kernel& kernel) const;
  void launch(const Kernel& kernel, int copy, bool overlap = false) const;
  /// Waits for the stream, and returns the outputs of copy 0.
  HostTensors download_outputs() const;

 private:
  void add_copy();
  void* allocate(std::size_t bytes);
  const void* arguments(int copy) const { return problem_.arguments(addresses_[static_cast<std::size_t>(copy)]); }

  const Device& device_;
  const Problem& problem_;
  cubit_stream stream_;
  DeviceArena* arena_;
  std::vector<Buffer> buffers_;                ///< empty if there is an arena
  std::vector<std::vector<void*>> addresses_;  ///< for each copy: addresses of inputs, then outputs
  std::optional<Buffer> workspace_;
};

}  // namespace cubit::tools
