#include "tools/kernels/device_case.hpp"

#include <algorithm>
#include <new>

namespace cubit::tools {
namespace {

/// The driver refuses to allocate zero bytes, but an empty tensor still needs an address.
std::size_t allocation_bytes(std::size_t bytes) { return std::max<std::size_t>(bytes, 256); }

std::size_t bytes_of_copy(const Problem& problem) {
  std::size_t bytes = 0;
  for (const auto& tensors : {problem.inputs(), problem.outputs()}) {
    for (const cubit_tensor& tensor : tensors) bytes += DeviceArena::room_for(allocation_bytes(tensor_bytes(tensor)));
  }
  return bytes;
}

}  // namespace

std::size_t DeviceArena::room_for(std::size_t bytes) {
  constexpr std::size_t kAlignment = 512;  // alignment of the driver's own allocations
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void DeviceArena::reset(std::size_t bytes) {
  taken_ = 0;
  if (memory_ && bytes <= memory_->bytes()) return;
  memory_.reset();  // free the old memory first: old and new memory together might not fit
  memory_.emplace(device_, std::max(bytes, least_));
}

void* DeviceArena::take(std::size_t bytes) {
  const std::size_t first = taken_;
  if (room_for(bytes) > this->bytes() - first) throw std::bad_alloc();
  taken_ += room_for(bytes);
  return static_cast<std::byte*>(memory_->data()) + first;
}

DeviceCase::DeviceCase(const Device& device, const Problem& problem, int copies, cubit_stream stream,
                       DeviceArena* arena)
    : device_(device), problem_(problem), stream_(stream), arena_(arena) {
  if (arena_ != nullptr) arena_->reset(static_cast<std::size_t>(copies) * bytes_of_copy(problem));
  for (int i = 0; i < copies; ++i) add_copy();
  device_.synchronise(stream_);
}

void* DeviceCase::allocate(std::size_t bytes) {
  if (arena_ != nullptr) return arena_->take(allocation_bytes(bytes));
  return buffers_.emplace_back(device_, allocation_bytes(bytes)).data();
}

void DeviceCase::add_copy() {
  std::vector<void*> addresses;
  for (const cubit_tensor& tensor : problem_.inputs()) {
    const std::size_t bytes = tensor_bytes(tensor);
    addresses.push_back(allocate(bytes));
    if (bytes > 0) device_.upload(addresses.back(), tensor.data, bytes, stream_);
  }
  for (const cubit_tensor& tensor : problem_.outputs()) {
    const std::vector<std::byte> unwritten(tensor.data == nullptr ? tensor_bytes(tensor) : 0, std::byte{0xff});
    const void* before = tensor.data == nullptr ? unwritten.data() : tensor.data;
    const std::size_t bytes = tensor_bytes(tensor);
    addresses.push_back(allocate(bytes));
    if (bytes > 0) device_.upload(addresses.back(), before, bytes, stream_);
    device_.synchronise(stream_);  // the copies must end before the host's bytes are freed
  }
  addresses_.push_back(std::move(addresses));
}

void DeviceCase::allocate_workspace(const Kernel& kernel) {
  const std::size_t bytes = kernel.workspace(arguments(0), &device_);
  workspace_.emplace(device_, allocation_bytes(bytes));
  const std::size_t counters = std::min<std::size_t>(workspace_->bytes(), CUBIT_WORKSPACE_ZEROED_BYTES);
  device_.fill_zero(workspace_->data(), counters, stream_);
}

Kernel DeviceCase::taken(const Kernel& kernel) const { return kernel.member(kernel.choose(arguments(0), &device_)); }

void DeviceCase::launch(const Kernel& kernel, int copy, bool overlap) const {
  kernel.launch(arguments(copy), {.device = &device_,
                                  .stream = stream_,
                                  .workspace = workspace_->data(),
                                  .workspace_bytes = workspace_->bytes(),
                                  .overlap = overlap});
}

HostTensors DeviceCase::download_outputs() const {
  HostTensors host;
  std::size_t index = problem_.inputs().size();
  for (const cubit_tensor& tensor : problem_.outputs()) {
    auto& bytes = host.emplace_back(tensor_bytes(tensor));
    if (!bytes.empty()) device_.download(bytes.data(), addresses_.front()[index], bytes.size(), stream_);
    ++index;
  }
  device_.synchronise(stream_);
  return host;
}

}  // namespace cubit::tools
