// Running one problem on a GPU through the public surface alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <cubit/check.hpp>

namespace cubit::tests {

inline constexpr std::size_t kGuardBytes = 4096;

/// Device memory between two guard zones that nobody may write. What is uploaded is there when it has been made:
/// streams do not wait for one another.
class GuardedBuffer {
 public:
  GuardedBuffer(const Device& device, std::size_t bytes, int fill)
      : GuardedBuffer(device, bytes, std::vector<unsigned char>(bytes, static_cast<unsigned char>(fill)).data()) {}
  GuardedBuffer(const Device& device, std::size_t bytes, const void* content)
      : device_(device), bytes_(bytes), buffer_(device, bytes + 2 * kGuardBytes) {
    const std::vector<unsigned char> guard(kGuardBytes, 0xa5);
    device.upload(buffer_.data(), guard.data(), kGuardBytes);
    device.upload(static_cast<char*>(data()) + bytes, guard.data(), kGuardBytes);
    fill(content);
  }
  /// Uploads all of the content, and waits.
  void fill(const void* content) {
    if (bytes_ > 0) device_.upload(data(), content, bytes_);
    device_.synchronise();
  }
  void* data() const { return static_cast<char*>(buffer_.data()) + kGuardBytes; }
  std::size_t bytes() const { return bytes_; }
  std::vector<unsigned char> download() const { return download(bytes_); }
  /// Downloads the first `bytes` bytes, or all if there are fewer.
  std::vector<unsigned char> download(std::size_t bytes) const {
    std::vector<unsigned char> host(std::min(bytes, bytes_));
    if (!host.empty()) device_.download(host.data(), data(), host.size());
    return host;
  }
  bool guards_intact() const {
    std::vector<unsigned char> host(2 * kGuardBytes);
    device_.download(host.data(), buffer_.data(), kGuardBytes);
    device_.download(host.data() + kGuardBytes, static_cast<char*>(data()) + bytes_, kGuardBytes);
    return std::all_of(host.begin(), host.end(), [](unsigned char byte) { return byte == 0xa5; });
  }

 private:
  Device device_;
  std::size_t bytes_;
  Buffer buffer_;
};

/// A problem's tensors on a device: inputs uploaded, outputs as they are before the launch, else filled with 0xff (NaN
/// in every float type).
class DeviceCase {
 public:
  DeviceCase(const Device& device, const Problem& problem) : device_(device), problem_(&problem) {
    for (const cubit_tensor& tensor : problem.inputs()) {
      buffers_.push_back(std::make_unique<GuardedBuffer>(device, tensor_bytes(tensor), tensor.data));
    }
    inputs_ = buffers_.size();
    for (const cubit_tensor& tensor : problem.outputs())
      buffers_.push_back(std::make_unique<GuardedBuffer>(device, tensor_bytes(tensor), content_before(tensor).data()));
  }

  /// Makes the outputs what they were before the first launch.
  void reset_outputs() {
    for (std::size_t i = inputs_; i < buffers_.size(); ++i)
      buffers_[i]->fill(content_before(problem_->outputs()[i - inputs_]).data());
  }

  const void* arguments() const {
    std::vector<void*> addresses;
    for (const auto& buffer : buffers_) addresses.push_back(buffer->data());
    return problem_->arguments(addresses);
  }
  GuardedBuffer& input(std::size_t index) { return *buffers_[index]; }
  GuardedBuffer& output(std::size_t index) { return *buffers_[inputs_ + index]; }

  /// Downloads the outputs and compares them with the reference of `problem`.
  Problem::Comparison compare(const Problem& problem) const {
    std::vector<std::vector<unsigned char>> host;
    std::vector<const void*> addresses;
    for (std::size_t i = inputs_; i < buffers_.size(); ++i) host.push_back(buffers_[i]->download());
    for (const auto& bytes : host) addresses.push_back(bytes.data());
    return problem.compare(addresses);
  }
  void expect_guards_intact() const {
    for (const auto& buffer : buffers_) EXPECT_TRUE(buffer->guards_intact());
  }

 private:
  static std::vector<unsigned char> content_before(const cubit_tensor& output) {
    const auto* content = static_cast<const unsigned char*>(output.data);
    const std::size_t bytes = tensor_bytes(output);
    return content == nullptr ? std::vector<unsigned char>(bytes, 0xff)
                              : std::vector<unsigned char>(content, content + bytes);
  }

  Device device_;
  const Problem* problem_;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
  std::size_t inputs_ = 0;
};

/// Launches once, in a workspace of its own, and waits. Returns whether the launch needed the
/// workspace, as split launches do.
inline bool launch_once(const Device& device, const Kernel& kernel, const void* arguments) {
  GuardedBuffer workspace(device, kernel.workspace(arguments, &device), 0);
  kernel.launch(arguments, {.device = &device,
                            .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                            .workspace_bytes = workspace.bytes()});
  device.synchronise();
  EXPECT_TRUE(workspace.guards_intact());
  return workspace.bytes() > 0;
}

}  // namespace cubit::tests
