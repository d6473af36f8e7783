// ContextDevice: the Device of one CUDA context.
#pragma once

#include <memory>
#include <utility>

#include "runtime/cuda/driver.hpp"
#include "runtime/device.hpp"

namespace cubit::runtime::cuda {

/// Relaxes stream-capture checks of this thread during its lifetime. Loading, allocating, copying and waiting are
/// forbidden, and would invalidate the capture, while another thread captures in global mode or this thread captures on
/// another stream. cubit's own calls of this kind use no captured stream, so the capture is not affected.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) {
    restore_ = driver_.cuThreadExchangeStreamCaptureMode(&mode_) == kSuccess;
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (restore_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }

 private:
  const Driver& driver_;
  int mode_ = kCaptureRelaxed;  ///< the mode to exchange next: after construction, the caller's mode
  bool restore_ = false;
};

class ContextDevice final : public Device {
 public:
  ContextDevice(int slot, std::uint64_t generation, const Driver& driver, Context context, unsigned long long id,
                DeviceFacts facts)
      : Device(slot, generation), driver_(driver), context_(context), id_(id), facts_(std::move(facts)) {}

  bool stands_for(const Driver& driver, unsigned long long id) const { return &driver_ == &driver && id_ == id; }
  bool uses_handle(const Driver& driver, Context context) const { return &driver_ == &driver && context_ == context; }
  /// True if the driver no longer knows this context's handle, or uses the handle for another context.
  bool dead() const;

  const DeviceFacts& facts() const override { return facts_; }
  bool enter() override;
  void leave() noexcept override;
  std::unique_ptr<LoadedKernel> load(const Artifact& artifact, const codegen::LaunchFacts& launch) override;
  void launch(const LoadedKernel& kernel, const LaunchShape& shape, std::span<const std::byte> parameters,
              Stream stream) override;
  EncodedTensorMap encode(const TensorMap& map) override;
  bool capturing(Stream stream) override;
  void* allocate(std::size_t bytes) override;
  void release(void* memory) override;
  void fill_zero(void* memory, std::size_t bytes, Stream stream) override;
  void copy_to_device(void* dst, const void* src, std::size_t bytes, Stream stream) override;
  void copy_to_host(void* dst, const void* src, std::size_t bytes, Stream stream) override;
  void synchronise(Stream stream) override;
  Stream create_stream() override;
  void destroy_stream(Stream stream) override;
  void begin_capture(Stream stream) override;
  std::unique_ptr<Graph> end_capture(Stream stream) override;
  double replay(Graph& graph, Stream stream) override;

 private:
  void launch_with_attributes(Function function, const LaunchShape& shape, void** parameters, DriverStream stream);

  const Driver& driver_;
  Context context_;
  unsigned long long id_;
  DeviceFacts facts_;
};

}  // namespace cubit::runtime::cuda
