// A problem in device memory, in one or several copies, and what a launch needs around it.
#pragma once

#include <cstddef>
#include <cubit/cubit.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace cubit::tools {

/// A stream that destroys itself.
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

/// One allocation for the tensors of all cases of a run, one case after the other, as an engine has one for its cache:
/// a case finds the memory that the ones before it had. It grows, by being allocated anew.
class DeviceArena {
 public:
  /// `least`: what it has from its first case on.
  DeviceArena(const Device& device, std::size_t least) : device_(device), least_(least) {}

  /// Makes room for `bytes` in all and forgets what was taken.
  void reset(std::size_t bytes);
  /// Aligned as an allocation of its own is. Throws std::bad_alloc for more than there was made room for.
  void* take(std::size_t bytes);
  /// What `bytes` take of the room.
  static std::size_t room_for(std::size_t bytes);
  std::size_t bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  const Device& device_;
  std::size_t least_;
  std::optional<Buffer> memory_;  ///< none before the first case, or after one that found no memory
  std::size_t taken_ = 0;
};

using HostTensors = std::vector<std::vector<std::byte>>;

class DeviceCase {
 public:
  /// Takes memory for `copies` of all tensors, from the arena or without one an allocation for each, so that what reads
  /// beyond a tensor is found; and uploads the inputs to each. Outputs hold what the problem says that they hold before
  /// the launch, else bytes 0xff, which are NaN in every floating-point type: an element that no kernel writes shows.
  /// The arena outlives the case, of which it has one at a time.
  DeviceCase(const Device& device, const Problem& problem, int copies, cubit_stream stream,
             DeviceArena* arena = nullptr);

  /// The workspace that `kernel` needs for this case; zeroed as far as it has to be, so that a read of anything that
  /// the kernel has not written itself is found.
  void allocate_workspace(const Kernel& kernel);
  void launch(const Kernel& kernel, int copy, bool overlap = false) const;
  /// Waits, and gives the outputs of copy 0.
  HostTensors download_outputs() const;

 private:
  void add_copy();
  void* allocate(std::size_t bytes);
  const void* arguments(int copy) const { return problem_.arguments(addresses_[static_cast<std::size_t>(copy)]); }

  const Device& device_;
  const Problem& problem_;
  cubit_stream stream_;
  DeviceArena* arena_;
  std::vector<Buffer> buffers_;                ///< none where there is an arena
  std::vector<std::vector<void*>> addresses_;  ///< of each copy: inputs, then outputs
  std::optional<Buffer> workspace_;
};

}  // namespace cubit::tools
