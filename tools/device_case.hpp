// A problem in device memory, in one or several copies, and what a launch needs around it.
#pragma once

#include <cstddef>
#include <cubit/cubit.hpp>
#include <optional>
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

using HostTensors = std::vector<std::vector<std::byte>>;

class DeviceCase {
 public:
  /// Allocates `copies` of all tensors and uploads the inputs to each. Outputs hold what the problem says that they
  /// hold before the launch, else bytes 0xff, which are NaN in every floating-point type: an element that no kernel
  /// writes shows.
  DeviceCase(const Device& device, const Problem& problem, int copies, cubit_stream stream);

  /// The workspace that `kernel` needs for this case; zeroed as far as it has to be, so that a read of anything that
  /// the kernel has not written itself is found.
  void allocate_workspace(const Kernel& kernel);
  void launch(const Kernel& kernel, int copy, bool overlap = false) const;
  /// Waits, and gives the outputs of copy 0.
  HostTensors download_outputs() const;

 private:
  void add_copy();
  const void* arguments(int copy) const { return problem_.arguments(addresses_[static_cast<std::size_t>(copy)]); }

  const Device& device_;
  const Problem& problem_;
  cubit_stream stream_;
  std::vector<Buffer> buffers_;
  std::vector<std::vector<void*>> addresses_;  ///< of each copy: inputs, then outputs
  std::optional<Buffer> workspace_;
};

}  // namespace cubit::tools
